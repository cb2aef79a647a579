package lesson

import (
	"strings"
	"sync"
)

// isFunctionWord reports whether a word has no meaning by itself, such as an article or a courtesy. Words such as
// "again" and "every" do have a meaning in a request.
func isFunctionWord(w string) bool { return functionWords()[w] }

//nolint:gochecknoglobals // immutable, made at first use
var functionWords = sync.OnceValue(func() map[string]bool {
	const words = `a about actually after ah also although am an and any anyone anything are arent around as ask asks at away be because been
		being but by can cannot cant could couldnt did didnt do does doesnt doing dont done during either else etc for from get
		gets getting give go goes going got had hadnt has hasnt have havent having he hello hence her here heres hers hey hi him his hmm
		how however i id if ill im in into is isnt it its itself ive just kind kinda kindly let lets like lot make makes making may
		maybe me might mine must my myself need needs neither nor not of off oh ok okay on once onto or our ours out own
		perhaps please pretty put quite rather really said say says see seem seems shall she should shouldnt simply since so
		some somebody someone something sort stuff such sure take takes than thank thanks that thats the their theirs them
		then there theres these they theyre thing things this those though through thus to together too towards up upon us use used user users uses
		using very via wanna want wanted wants was wasnt way we well went were werent what whatever whats when whether while who
		whom whose will with wont would wouldnt yeah yes yet you your youre yours
		bc btw cuz dunno folks gonna gotta lol nah omg pls plz ppl rn somehow stuff tho thx ty u ur wtf whats`
	return wordSet(words)
})

// commonWords returns stems of common English words. A common word may happen to be rare in the captured sessions, so
// such a stem weighs at most as much as a stem that occurs in every tenth session.
//
//nolint:gochecknoglobals // immutable, made at first use
var commonWords = sync.OnceValue(func() map[string]bool {
	const words = `add again all answer app back bad before best bit both build call change check code command come correct create current
		data different down each end error even ever every everything example explain fail file find fine first fix follow full
		function good great help here id import info information input issue item keep know last later latest left newest recent line list little long look main
		many mean message more most move much name never new next no nothing now number old one only open order other output over
		page part path place point possible print problem program project provide question read report request result right run same save
		search second set show simple some start still stop system tell test text think time today try two type update version view
		wait where which why without word work write wrong year`
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[canonical(englishStem(w))] = true
	}
	return out
})

func wordSet(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}

// synonymLines lists synonyms in requests to agents; the first word represents the line. A word with several frequent
// senses must not be listed.
const synonymLines = `
fail failure break broken broke red
error exception fault
fix repair mend
test suite spec
dependency library lib
upgrade bump
latest newest
remove delete drop erase purge wipe rid
find locate hunt grep lookup
usage reference caller occurrence
directory folder dir
config configuration setting settings conf
repository repo
database db postgres postgresql mysql mariadb sqlite
deploy deployment rollout
generate autogenerate codegen regenerate
verify validate
credential password secret
migration migrate alembic flyway liquibase
documentation docs readme
translate localize localise localization localisation i18n
variable var
argument arg
parameter param
image picture photo
cancel abort
refund reimburse reimbursement chargeback
kill terminate
slow sluggish fast speed performance optimize optimise latency
log logging
branch fork
merge integrate
chart graph diagram plot visualize visualise histogram
login signin
website webpage site
fetch retrieve
summary summarize summarise recap
invoice bill
regex regexp
timezone tz
licence license
ci pipeline
luggage baggage suitcase bag
container docker dockerfile dockerize containerize podman
endpoint route
release publish
flaky flake intermittent sporadic unstable
refactor restructure reorganize reorganise modularize
flight plane airplane fly flying
rebook reschedule
email mail
phone telephone
lint linter eslint ruff pylint flake8
format formatter prettier
memory ram
certificate cert tls ssl
deny denied forbidden unauthorized unauthorised reject refuse
lock frozen freeze
limit maximum max quota
exceed surpass
large big huge
stale outdated obsolete
buy purchase
price cost fee
reduce shrink slim
clean tidy cleanup
mock stub fake
security secure vulnerability vuln cve
production prod
environment env
authenticate authentication auth
crawl crawler scrape scraper
screenreader a11y accessibility
`

// wordPairs maps two words to one word with the same meaning.
//
//nolint:gochecknoglobals // immutable
var wordPairs = map[string]string{
	"money back": "refund", "regular expression": "regex", "sign up": "signup", "call off": "cancel", "log in": "login", "sign in": "login", "look up": "lookup", "pull request": "pr", "merge request": "pr", "to date": "upgrade",
	"roll back": "rollback", "set up": "setup", "take apart": "refactor", "go live": "deploy", "go slow": "slow", "speed up": "slow",
}

// productNames returns names that are one word, even in camel case.
//
//nolint:gochecknoglobals // immutable, made at first use
var productNames = sync.OnceValue(func() map[string]bool {
	return wordSet("github gitlab javascript typescript postgresql graphql mysql mariadb mongodb openai openapi youtube linkedin powershell macos ios whatsapp paypal wordpress")
})

//nolint:gochecknoglobals // immutable, made at first use
var synonyms = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(synonymLines) {
		words := strings.Fields(line)
		for i, w := range words {
			if i > 0 {
				out[englishStem(w)] = englishStem(words[0])
			}
		}
	}
	return out
})

// canonical returns the stem of the first synonym in the stem's line in synonymLines, or the stem itself.
func canonical(stem string) string {
	if s, ok := synonyms()[stem]; ok {
		return s
	}
	return stem
}
