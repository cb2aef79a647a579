package redis

// CheckURL says whether the address can be used. Its error does not hold the address.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}
