package proxy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"precept/internal/label"
)

// The requests in this file quote this conversation. The lesson's keyword is "build".
const (
	chatQuestion = "How do I build the parser on Windows?"
	chatAnswer   = "Run the build script in a developer prompt, then copy the file to the target folder."
)

// housekeepingRequests returns requests for titles, tags and the like from chat front ends.
func housekeepingRequests() map[string]string {
	tagged := "<chat_history>\nUSER: " + chatQuestion + "\nASSISTANT: " + chatAnswer + "\n</chat_history>"
	lines := "User: " + chatQuestion + "\nAssistant: " + chatAnswer
	return map[string]string{
		"Open WebUI, title":             "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n### Guidelines:\n- The title should clearly represent the main theme or subject of the conversation.\n### Output:\nJSON format: { \"title\": \"your concise title here\" }\n### Chat History:\n" + tagged,
		"Open WebUI, tags":              "### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history, along with 1-3 more specific subtopic tags.\n\n### Guidelines:\n- Start with high-level domains (e.g. Science, Technology)\n\n### Output:\nJSON format: { \"tags\": [\"tag1\", \"tag2\", \"tag3\"] }\n\n### Chat History:\n" + tagged,
		"Open WebUI, follow-ups":        "### Task:\nSuggest 3-5 relevant follow-up questions or prompts that the user might naturally ask next in this conversation as a **user**, based on the chat history, to help continue or deepen the discussion.\n### Output:\nJSON format: { \"follow_ups\": [\"Question 1?\"] }\n### Chat History:\n" + tagged,
		"Open WebUI, search queries":    "### Task:\nAnalyze the chat history to determine the necessity of generating search queries, in the given language. By default, **prioritize generating 1-3 broad and relevant search queries** unless it is absolutely certain that no additional information is required.\n### Output:\nStrictly return in JSON format: \n{\n  \"queries\": [\"query1\"]\n}\n\n### Chat History:\n" + tagged,
		"Open WebUI, autocompletion":    "### Task:\nYou are an autocompletion system. Continue the text in `<text>` based on the **completion type** in `<type>` and the given language.\n\n### **Instructions**:\n1. Analyze `<text>` for context and meaning.\n### Context:\n" + tagged + "\n<type>search query</type>\n<text>how to build</text>\n#### Output:\n",
		"Open WebUI, emoji":             "Your task is to reflect the speaker's likely facial expression through a fitting emoji. Interpret emotions from the message and reflect their facial expression using fitting, diverse emojis (e.g., 😊, 😢, 😡, 😱).\n\nMessage: ```" + chatQuestion + "```",
		"Open WebUI, image prompt":      "### Task:\nGenerate a detailed prompt for am image generation task based on the given language and context. Describe the image as if you were explaining it to someone who cannot see it.\n### Output:\nStrictly return in JSON format:\n{\n    \"prompt\": \"Your detailed prompt here.\"\n}\n\n### Chat History:\n" + tagged,
		"Open WebUI, custom template":   "Suggest a few topics as tags. Answer in German.\n" + tagged,
		"LibreChat, language and title": "Analyze this conversation and provide:\n1. The detected language of the conversation\n2. A concise title in the detected language (5 words or less, no punctuation or quotation)\n\n" + lines,
		"LibreChat, title":              "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return the title itself.\n\nConversation:\n" + lines,
		"LibreChat, older version":      "Detect user language and write in the same language an extremely concise title for this conversation, which you must accurately detect.\nWrite in the detected language. Title in 5 Words or Less. No Punctuation or Quotation.\n\n||>User:\n\"" + chatQuestion + "\"\n||>Response:\n\"" + chatAnswer + "\"\n\n||>Title:",
		"big-AGI, title":                "Analyze the given short conversation (every line is truncated) and extract a concise chat title that summarizes the conversation in as little as a couple of words.\nOnly respond with the lowercase short title and nothing else.\n\n```\n- You: " + chatQuestion + "\n- AI: " + chatAnswer + "\n```\n",
		"Chatbox, name":                 "Based on the chat history, give this conversation a name.\nKeep it short - 10 characters max, no quotes.\nUse English.\nJust provide the name, nothing else.\n\nHere's the conversation:\n\n```\n" + lines + "\n```\n\nName this conversation in 10 characters or less.\nUse English.\nOnly give the name, nothing else.\n\nThe name is:",
		"Lobe, older version":           lines + "\n\n请总结上述对话为10个字以内的标题，不需要包含标点符号，输出语言语种为：zh-CN",
		"Lobe, rephrased question":      "Given the following conversation and a follow-up question, rephrase the follow up question to be a standalone question, in its original language. Keep as much details as possible from previous messages. Keep entity names and all.\n\nChat History:\n" + lines + "\n\nFollow Up Input:\nAnd on Linux?\n\nRephrased question:",
		"Continue, title":               "Given the following... please reply with a title for the chat that is 3 - 4 words in length, all words used should be directly related to the content of the chat, avoid using verbs unless they are directly related to the content of the chat, no additional text or explanation, you don't need ending punctuation.\n\n" + chatAnswer,
		"Continue, code completion":     "You are a HOLE FILLER. You are provided with a file containing holes, formatted as '{{HOLE_NAME}}'. Your TASK is to complete with a string to replace this hole with, inside a <COMPLETION/> XML tag.\n\n<QUERY>\nfunc build() {{{FILL_HERE}}}\n</QUERY>",
		"Jan, title":                    "Summarize in a 10-word Title. Give the title only. \"" + chatQuestion + "\"",
		"Dify, next questions":          "Please help me predict the three most likely questions that human would ask, and keep each question under 20 characters.\n" + lines,
		"Cline and Roo, better prompt":  "Generate an enhanced version of this prompt (reply with only the enhanced prompt - no conversation, explanations, lead-in, bullet points, placeholders, or surrounding quotes):\n\n" + chatQuestion,
		"Zed, commit message":           "You are an expert at writing Git commits. Your job is to write a short clear commit message that summarizes the changes.\n\nHere are the changes in this commit:\n```\n+build\n```",
		"Cline, commit message":         "Based on the provided git diff, generate a concise and descriptive commit message.\n\n+build",
		"Twinny, code completion":       "<|fim_prefix|>func build() {<|fim_suffix|>}<|fim_middle|>",
		"unknown, headings":             "**Task:** Classify the talk into a category.\n\nConversation:\n" + lines,
		"unknown, list":                 "INSTRUCTIONS:\n1. Please extract facts about the user.\n\n" + lines,
		"unknown, instruction first":    "Pick one emoji for the mood of this talk.\n\n" + lines,
		"unknown, instruction last":     lines + "\n\nGive this talk a short name.",
		"unknown, JSON messages":        "Create keywords for the dialogue.\n\n[{\"role\":\"user\",\"content\":\"" + chatQuestion + "\"},{\"role\":\"assistant\",\"content\":\"" + chatAnswer + "\"}]",
		"unknown, role for the model":   "You are an assistant with good taste. Propose three follow-up questions for the user.\n\nHuman: " + chatQuestion + "\nAI: " + chatAnswer,
	}
}

// Each request counts as a side request (agent housekeeping), and starts no session.
func TestHousekeepingRequestsAreForwardedUnchanged(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixture(t, up, "", newBook(t, "one: build"), injectAll())
	sessionCount := func() (n float64) {
		for _, method := range []string{"new", "echo", "body"} {
			n += f.counter("sessions", method)
		}
		return n
	}
	sideCount := func() (n float64) {
		for _, reason := range label.SideReasons() {
			n += f.counter("side", string(reason))
		}
		return n
	}
	for name, text := range housekeepingRequests() {
		asked := obj{"role": "user", "content": text}
		for path, body := range map[string]obj{ // the query strings only make the map's keys unique
			"/v1/chat/completions":         {"messages": []obj{asked}, "stream": false},
			"/v1/chat/completions?system":  {"messages": []obj{{"role": "system", "content": "You are a helpful assistant."}, asked}},
			"/v1/responses":                {"input": text},
			"/v1/responses?list":           {"input": []obj{asked}, "instructions": "You are a helpful assistant."},
			"/v1/messages":                 {"messages": []obj{{"role": "user", "content": []obj{{"type": "text", "text": text}}}}, "max_tokens": 99},
			"/v1/messages?system":          {"messages": []obj{asked}, "system": "You are a helpful assistant.", "max_tokens": 99},
			"/v1/chat/completions?session": {"messages": []obj{asked}, "metadata": obj{"session_id": name}},
		} {
			sent, _ := json.Marshal(body)
			sessions, sides := sessionCount(), sideCount()
			if res, reply := f.send(t, "POST", path, nil, string(sent)); res.StatusCode != 200 {
				t.Fatalf("%s at %s: got status %d, body %s, want status 200", name, path, res.StatusCode, reply)
			}
			if got := string(up.lastRequest(t).body); got != string(sent) {
				t.Errorf("%s at %s: the upstream got %s, want %s", name, path, got, sent)
			}
			if sessionCount() != sessions {
				t.Errorf("%s at %s: sessionCount() = %v, want %v", name, path, sessionCount(), sessions)
			}
			if sideCount() != sides+1 {
				t.Errorf("%s at %s: sideCount() = %v, want %v", name, path, sideCount(), sides+1)
			}
		}
	}
}

// A user's own request can also ask for tags, and an agent can send the whole history in one message. Such requests are
// turns, not side requests.
func TestRequestsSimilarToHousekeepingAreTurns(t *testing.T) {
	lines := "Human: " + chatQuestion + "\nAI: " + chatAnswer
	for name, text := range map[string]string{
		"question":              chatQuestion,
		"tags for a build":      "Generate tags for the docker build of the parser.",
		"name for a script":     "Give the build script a better name.",
		"pasted chat":           "My colleague and I talked about the build:\n\n" + lines + "\n\nIs the advice of the assistant right?",
		"chat with history":     "The following is a friendly conversation between a human and an AI. The AI is talkative and gives a title to each answer.\n\nCurrent conversation:\n" + lines + "\nHuman: Suggest tags for the build.\nAI:",
		"agent history":         "Answer the following questions as best you can. Suggest follow-up questions at the end.\n\n" + lines + "\n\nQuestion: how do I build on Linux?\nThought:",
		"code with role labels": "Fix the build of this prompt:\n\n```\nuser: hi\nassistant: hello\n```\n",
		"code that summarizes":  "Write a function for the build that summarizes test results and adds tags.",
	} {
		up := newUpstream(t, nil)
		f := newFixture(t, up, "", newBook(t, "one: build"), injectAll())
		sent, _ := json.Marshal(obj{"model": "m-1", "messages": []obj{{"role": "user", "content": text}}})
		res, _ := f.send(t, "POST", chatPath, nil, string(sent))
		if got := string(up.lastRequest(t).body); !strings.Contains(got, "[one]") {
			t.Errorf("%s: the upstream got %s (Precept-Skip %q), want lesson one", name, got, res.Header.Get("Precept-Skip"))
		}
		if n := f.counter("sessions", "new"); n != 1 {
			t.Errorf("%s: got %v new sessions, want 1", name, n)
		}
	}
}
