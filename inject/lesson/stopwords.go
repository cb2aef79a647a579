package lesson

// isStopWord reports whether a phrase is a single word that occurs in almost every English text.
func isStopWord(s string) bool {
	switch s {
	case "a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "ask", "at",
		"back", "be", "because", "been", "before", "being", "but", "by", "can", "could", "did", "do", "does", "doing", "done",
		"each", "even", "every", "few", "for", "from", "get", "give", "go", "going", "good", "got", "had", "has", "have", "he",
		"hello", "help", "her", "here", "hey", "hi", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just",
		"know", "let", "like", "look", "make", "many", "may", "me", "more", "most", "much", "must", "my", "need", "new", "no",
		"not", "now", "of", "off", "ok", "okay", "on", "one", "only", "or", "other", "our", "out", "over", "please", "put",
		"same", "say", "see", "she", "should", "so", "some", "still", "such", "take", "than", "thanks", "that", "the", "their",
		"them", "then", "there", "these", "they", "thing", "things", "this", "those", "to", "too", "try", "two", "up", "us",
		"use", "using", "very", "want", "was", "way", "we", "well", "were", "what", "when", "where", "which", "while", "who",
		"why", "will", "with", "work", "would", "yes", "you", "your":
		return true
	default:
		return false
	}
}
