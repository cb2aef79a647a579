package lesson

import "testing"

// An affix is a particle, article or preposition that is attached to a word. A keyword does not match another word that
// merely begins or ends like the keyword.
func TestKeywordMatchesWithAffixes(t *testing.T) {
	for _, tc := range []struct {
		language, phrase string
		matching, others []string // texts with and without a match
	}{
		{
			"Korean", "페이지",
			[]string{"페이지를 불러와", "이 페이지는", "페이지에서", "페이지까지도", "페이지로부터", "페이지입니다.", "페이지가", "페이지들의", "3페이지", "페이지ㅠㅠ", "페이지(404)"},
			[]string{"홈페이지", "페이지네이션", "페이", "페 이지"},
		},
		{"Korean", "배포", []string{"배포해 줘", "배포했어요", "배포하면", "배포됐나요", "배포 중", "배포중에", "배포시키면"}, []string{"재배포", "배포자"}},
		{"Korean", "데이터", []string{"데이터를", "데이터와"}, []string{"데이터베이스"}},
		{"Korean", "문제", []string{"문제없이", "문제입니다"}, []string{"문제집"}},
		{"Korean and Latin", "docker", []string{"docker를 써", "docker로", "최신docker에서"}, []string{"dockerfile을"}},
		{"Korean and Latin", "API 오류", []string{"API 오류가 났다"}, []string{"API 오류율표"}},
		{"Korean and digits", "404", []string{"404가 나와", "404를"}, []string{"4041이"}},
		{
			"Arabic", "صفحة",
			[]string{"افتح الصفحة", "والصفحة", "بالصفحة", "للصفحة", "وصفحة", "لصفحة", "صَفْحَة", "صفحـــة", "صفحة."},
			[]string{"صفحات", "مصفحة"},
		},
		{"Arabic", "الخادم", []string{"في الخادم", "للخادم", "خادم جديد", "بالخادم"}, []string{"خادمة"}},
		{"Arabic", "خطأ في الخادم", []string{"حدث خطا في الخادم", "الخطأ في الخادم"}, []string{"خطأ في خادم"}},
		{"Arabic and Latin", "docker", []string{"بـdocker", "الdocker"}, nil},
		{"Arabic digits", "خطأ 404", []string{"خطأ ٤٠٤", "خطأ ۴۰۴"}, []string{"خطأ ٤٠٥"}},
		{"Persian", "کاربر", []string{"كاربر"}, nil},
		{"Hebrew", "דפים", []string{"הדפים", "בדפים", "והדפים", "שהדפים", "דָּפִים"}, []string{"אדפים", "דפימ"}},
		{"Hebrew and Latin", "api", []string{"ה-API", "הAPI"}, nil},
		{"full width", "api key 401", []string{"ＡＰＩ　ｋｅｙ　４０１", "ＡＰＩ key ４０１"}, []string{"ＡＰＩ ｋｅｙｓ ４０１"}},
		{"full width", "ＡＰＩ", []string{"the api"}, nil},
		{"full width", "error:", []string{"Ｅｒｒｏｒ：ｎｏ"}, nil},
		{"half width", "サーバー", []string{"ｻｰﾊﾞｰが", "サーバー側", "サーバーAPI"}, []string{"サバ"}},
		{"Japanese", "サーバ", []string{"サーバが落ちた", "新しいサーバに"}, nil},
		{"Japanese", "接続エラー", []string{"接続エラーが発生", "接続 エラー", "接続\nエラー"}, []string{"接続のエラー"}},
		{"Japanese", "docker を再起動", []string{"docker を再起動して", "dockerを再起動"}, []string{"docker を停止"}},
		{"Chinese", "使用API", []string{"请使用 API 密钥", "使用API。", "使用ＡＰＩ"}, []string{"使用 APIs"}},
		{"Chinese", "读取 页面", []string{"读取页面失败", "读取\n页面"}, nil},
		{"Thai", "ไฟล์", []string{"เปิดไฟล์นี้", "ไฟล์"}, nil},
		{"Thai", "น้ำ", []string{"ใน\u0e19\u0e49\u0e4d\u0e32นี้"}, nil},
		{"quotes", "can't find module", []string{"Can’t find module", "can‘t find module", "canʼt find module", "can´t find module", "can＇t find module"}, []string{"cant find module"}},
		{"quotes", `no module named "x"`, []string{"No module named “x”", "no module named „x“", "no module named «x»", "no module named ″x″"}, []string{"no module named x"}},
		{"quotes", "don’t retry", []string{"don't retry"}, nil},
		{"hyphens", "re-run the job", []string{"re‑run the job", "re‐run the job", "re–run the job", "re−run the job", "re－run the job"}, []string{"rerun the job"}},
		{"ligatures", "file conflict", []string{"ﬁle conﬂict"}, nil},
		{"ellipsis", "loading...", []string{"loading…"}, nil},
		{"Ukrainian", "комп'ютер", []string{"комп’ютер", "компʼютер"}, nil},
	} {
		for want, texts := range map[bool][]string{true: tc.matching, false: tc.others} {
			for _, text := range texts {
				l := lessonWithKeywords("it", tc.phrase)
				if got := len(NewBook([]*Lesson{l}).Match(&Query{Words: []string{text}})) > 0; got != want {
					t.Errorf("%s: keyword %q in %q: match = %t, want %t", tc.language, tc.phrase, text, got, want)
				}
				e := lessonWithTrigger("it", Trigger{ErrorPatterns: []string{tc.phrase}})
				if got := len(NewBook([]*Lesson{e}).Match(&Query{Errors: []ErrorText{{Text: text}}})) > 0; got != want {
					t.Errorf("%s: error pattern %q in %q: match = %t, want %t", tc.language, tc.phrase, text, got, want)
				}
			}
		}
	}
}

// A tag matches in full-width letters, with Unicode hyphens, and in any letter case.
func TestTagIgnoresWidthHyphenStyleAndCase(t *testing.T) {
	b := NewBook([]*Lesson{lessonWithTrigger("it", Trigger{Tags: []string{"code-review"}})})
	for _, q := range []Query{
		{Words: []string{"a ｃｏｄｅ－ｒｅｖｉｅｗ please"}},
		{Words: []string{"code‑review를 해줘"}},
		{Tags: []string{" Code‐Review "}},
		{Tags: []string{"ｃｏｄｅ-review"}},
		{Errors: []ErrorText{{Text: "x", Tags: []string{"Code–review"}}}},
	} {
		if hits, explained := len(b.Match(&q)), len(b.Explain(&q)); hits != 1 || explained != 1 {
			t.Errorf("%+v: got %d matches and %d explanations, want 1 and 1", q, hits, explained)
		}
	}
}

// A keyword of two Latin letters is too broad, because a Latin letter carries less meaning than a Korean syllable.
func TestTwoKoreanSyllablesAreNotTooBroad(t *testing.T) {
	if got := overbroadFindings(lessonWithKeywords("it", "배포")); len(got) > 0 {
		t.Errorf("two Korean syllables: findings = %v, want none", got)
	}
	if got := overbroadFindings(lessonWithKeywords("it", "ab")); len(got) != 1 {
		t.Errorf("two Latin letters: findings = %v, want one", got)
	}
}
