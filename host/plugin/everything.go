package plugin

// Everything grants all that a plugin may ask for, with any name that begins
// with a letter, a digit or an underscore. It is for tools, which run a plugin
// where there is nothing to protect and no configuration that says what it may
// do. Names of the API itself stay refused.
func Everything() Grants {
	const lower, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"
	var names, headers []string
	for _, first := range lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + digits + "_" {
		names = append(names, string(first)+"*")
	}
	for _, first := range lower + digits {
		headers = append(headers, "x-"+string(first)+"*")
	}
	return Grants{
		Fields: names, UsageExtend: names, Headers: headers,
		Emit: true, Metrics: true, Clock: true, KVRead: true, KVWrite: true,
		ReadRequest: true, ReadResponse: true, ContentEgress: true, Rewrite: true, Deny: true,
	}
}
