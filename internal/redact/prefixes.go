package redact

import "strings"

// prefixGroup lists prefixes of keys that have the same form after the prefix: at least minBytes bytes in class.
type prefixGroup struct {
	texts    string // separated by spaces
	class    uint16
	minBytes int
}

const (
	dottedByte    = nameByte
	urlBase64Byte = tokenByte | base64Byte
)

// prefixGroups returns the prefixes for vendors that have no kind, and for password hashes in /etc/shadow and htpasswd.
// The bytes after a prefix must contain a digit.
func prefixGroups() []prefixGroup {
	return []prefixGroup{
		{"shpat_ shpca_ shppa_ shpss_ shptka_ shpua_ dop_v1_ doo_v1_ dor_v1_ lin_api_ lin_oauth_ ntn_ NRAK- NRII- NRRA- sntryu_ rubygems_", alnumByte, 20},
		{"pul- r8_ fw_ tvly- csk- sbp_ vcp_ nfp_ cfut_ cfat_ cfk_ jina_ AGE-SECRET-KEY- exa_ wandb_v1_ napi_ rnd_ railway_ bkua_ rpa_ ico- cog_ vca_ vci_ vcr_ nfc_ nfo_ sbp_v0_ phr_ NRIQ- NRAA- bb_live_ mlsn.", alnumByte, 20},
		{"pnu_ rdme_ squ_ sqp_ sqa_ shippo_live_ shippo_test_ NRJS- LTAI ATBB CLOJARS_ p8e- ak- as-", alnumByte, 19},
		{"odt_ ak_live_ ak_test_ flb_live_ sm_aat_ sm_pat_ sm_sat_ npg_ tfp_ CCIPAT_ CCIPRJ_ ls__", alnumByte, 12},
		{"cio oauth: API- vck_ apify_api_ AKID", alnumByte, 26},
		{"BBDC- EZAK EZTK AKCp cmVmd oy2 4b1d pa- secret_ ZXlKaGJHY2lPaU", alnumByte, 38},
		{"EAA", alnumByte, 90},
		{"key- fc- s-s4t2ud- s-s4t2af- sk_ KGAT_ e2b_", hexByte, 32},
		{"mdb_sa_sk_ sec-c- gloas- sgp_ figd_ figu_ figs_ tgp_v1_ phx_ phc_ pha_ phs_ dckr_pat_ dckr_oat_ PMAK- glsa_ sq0atp- sq0csp- nvapi- lsv2_pt_ lsv2_sk_ pcsk_ sb_secret_ glrtr- llx- csb_v1_ tkn.v1_", tokenByte, 20},
		{"tskey- CFPAT- fo1_ FLWSECK- FLWPUBK_TEST- dnkey- HRKU- AQVN tk-us- pat-na1- pat-eu1-", tokenByte, 20},
		{"xkeysib- xsmtpsib- access-sandbox- access-development- access-production- tvly-dev- tvly-prod- 1//0", tokenByte, 24},
		{"FLWSECK_TEST-", tokenByte, 12},
		{"EAAA", tokenByte, 22},
		{"re_ A3- sha256~ amzn.mws. waka_ y0_Ag SWMTKN-1-", tokenByte, 30},
		{"mfa. sl.u. v1.0- v4.0- APA91b AAAAAAAAAAAAAAAAAAAAA", tokenByte, 48},
		{"VF.DM. VF.WS. hvs. hvb. dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit. dt0c01. dt0s16. sk.eyJ pat. sat. t1.9eue", dottedByte, 20},
		{"sl.", tokenByte, 100},
		{"pscale_tkn_ pscale_pw_ pscale_oauth_ duffel_test_ duffel_live_ fio-u-", dottedByte | base64Byte, 32},
		{"glc_ sntrys_ ATATT3 ATCTT3 fm2_ fm1r_ fm1a_ ops_eyJ bedrock-api-key- eyJrIjoi ABSK", urlBase64Byte, 32},
		{"xprv yprv zprv tprv", alnumByte, 90},
		{"MIIEpAIBAA MIIEowIBAA MIIEpQIBAA MIIEvQIBADAN MIIEvgIBADAN MIIEvAIBADAN MIICXAIBAA MIICXQIBAA MIICWwIBAA MIIJKQIBAA MIIJKAIBAA", base64Byte, 32},
		{"$1$ $apr1$ $2a$ $2b$ $2y$ $5$ $6$ $y$ $argon2id$", cryptByte, 24},
		{"dapi xai- pplx- gsk_", alnumByte, 32},
		{"access_token$production$ access_token$sandbox$", cryptByte, 40},
	}
}

func furtherPrefixes() (out []prefix) {
	for _, g := range prefixGroups() {
		for text := range strings.FieldsSeq(g.texts) {
			out = append(out, prefix{text: text, class: g.class, minBytes: g.minBytes, needsDigit: true})
		}
	}
	for _, text := range [...]string{"api-", "sdk-", "mob-"} { // LaunchDarkly
		out = append(out, prefix{text: text, class: tokenByte, minBytes: 36, isUUID: true})
	}
	return append(out, prefix{text: "GR1", bodyStart: "348941", class: tokenByte, minBytes: 26}) // GitLab runners
}
