package message

import (
	"regexp"
	"strconv"
)

// What workers report without a category is classified by what the errors of common languages and protocols are called.
// Only what is plain counts: a failure that is put into the wrong category is worse than an unknown one.
var (
	// classes tell by the class of an error what it is, whatever its text says.
	classes = []struct {
		pattern  *regexp.Regexp
		category Category
	}{
		{regexp.MustCompile(`(?i)time_?d?_?out|deadline_?exceeded|time_?limit_?exceeded`), Timeout},
		{regexp.MustCompile(`(?i)unauthori[sz]ed|unauthenticated|authentication|authori[sz]ation|forbidden|` +
			`(permission|access)_?denied|(expired|invalid)_?token|token_?expired|invalid_?credential|` +
			`signature_?(does_?not_?match|mismatch)`), Auth},
		{regexp.MustCompile(`(?i)validation|illegal_?argument|invalid_?argument|^(builtins\.)?valueerror$|bad_?request|` +
			`json_?(decode|parse|processing|mapping|syntax)|malformed|unmarshal_?type|unprocessable|number_?format|` +
			`date_?time_?parse|constraint_?violation|schema_?error|zoderror|parse_?(error|exception)$|` +
			`^\*?json\.syntaxerror$|(not_?null|check|foreign_?key|unique)_?violation`), Validation},
		{regexp.MustCompile(`(?i)connect(ion)?_?(error|exception|refused|reset|aborted|closed|failure)|` +
			`^(econnrefused|econnreset|econnaborted|enotfound|eai_again|epipe|ehostunreach|enetunreach)$|unknown_?host|` +
			`no_?route_?to_?host|(service|temporarily)_?unavailable|bad_?gateway|too_?many_?requests|rate_?limit|throttl|` +
			`remote_?disconnected|http_?server_?error|resource_?(access|exhausted)|communications_?exception|` +
			`sql_?transient|operational_?error|(net|dns|socket|ssl|tls)_?(error|exception)$`), External},
	}

	grpcCode = regexp.MustCompile(`\bcode = (\w+)|\bStatusCode\.([A-Z_]+)|^(?:\d+ )?([A-Z_]{7,}): `)
	// httpStatus finds a status where the text says that it is one.
	httpStatus = regexp.MustCompile(
		`(?i)\b(?:http(?:/\d(?:\.\d)?)?|status(?:[ _]?code)?|response(?: code)?)\b[ :=('"]{0,4}([1-5]\d{2})\b|` +
			`^([45]\d{2}) (?:bad request|unauthorized|forbidden|not found|request timeout|too many|unprocessable|` +
			`internal server|bad gateway|service unavailable|gateway time)`)

	// texts tell by its text what an error is that has no telling class.
	texts = []struct {
		pattern  *regexp.Regexp
		category Category
	}{
		{regexp.MustCompile(`(?i)context deadline exceeded|\b(connection|request|operation|read|write|i/o|lock|query|` +
			`statement)\b.{0,20}\btime(d[ -]?)?[ -]?out\b|\btimed out\b|\bETIMEDOUT\b|Client\.Timeout exceeded`), Timeout},
		{regexp.MustCompile(`(?i)\b(invalid|wrong|bad) (credentials|api key|access token)\b|\baccess denied\b|` +
			`\bpermission denied\b|\bunauthorized\b|\b(token|credentials?) (has |have )?expired\b`), Auth},
		{regexp.MustCompile(`(?i)json: cannot unmarshal|invalid character .{1,20} looking for|unexpected end of json|` +
			`unexpected token .{1,20} in json|is not valid json|expecting value: line \d+|cannot deserialize`), Validation},
		{regexp.MustCompile(`(?i)\bconnection (was )?(refused|reset|aborted|closed)\b|\bno such host\b|\bbroken pipe\b|` +
			`\bECONN(REFUSED|RESET|ABORTED)\b|\bENOTFOUND\b|\bEAI_AGAIN\b|\bname or service not known\b|\bno route to host\b|` +
			`\bnetwork is unreachable\b|\bserver closed (the connection|idle connection)\b|` +
			`\btoo many (requests|connections)\b|\bservice unavailable\b|\bbad gateway\b|` +
			`\brate limit(ed| exceeded)?\b`), External},
	}

	// wrappers are classes that tell something when the text tells nothing.
	wrappers = regexp.MustCompile(`^\*?(net\.(OpError|DNSError|AddrError)|url\.Error|pgconn\.ConnectError)$`)

	grpcCategories = map[string]Category{
		"DeadlineExceeded": Timeout, "DEADLINE_EXCEEDED": Timeout,
		"Unauthenticated": Auth, "UNAUTHENTICATED": Auth, "PermissionDenied": Auth, "PERMISSION_DENIED": Auth,
		"InvalidArgument": Validation, "INVALID_ARGUMENT": Validation, "OutOfRange": Validation, "OUT_OF_RANGE": Validation,
		"FailedPrecondition": Validation, "FAILED_PRECONDITION": Validation,
		"Unavailable": External, "UNAVAILABLE": External, "ResourceExhausted": External, "RESOURCE_EXHAUSTED": External,
		"Internal": External, "INTERNAL": External, "Aborted": External, "ABORTED": External,
	}
)

// Classify returns the category of an error by its class, such as "java.net.SocketTimeoutException" or "*net.OpError",
// and its message. It is Unknown when neither tells plainly.
func Classify(class, reason string) Category {
	for _, c := range classes {
		if class != "" && c.pattern.MatchString(class) {
			return c.category
		}
	}
	if m := grpcCode.FindStringSubmatch(reason); m != nil {
		if category, ok := grpcCategories[m[1]+m[2]+m[3]]; ok {
			return category
		}
	}
	if m := httpStatus.FindStringSubmatch(reason); m != nil {
		if category := httpCategory(m[1] + m[2]); category != Unknown {
			return category
		}
	}
	for _, text := range texts {
		if text.pattern.MatchString(reason) {
			return text.category
		}
	}
	if wrappers.MatchString(class) {
		return External
	}
	return Unknown
}

// httpCategory tells by RFC 9110, section 15, whose fault a status is.
func httpCategory(digits string) Category {
	switch status, _ := strconv.Atoi(digits); {
	case status == 401, status == 403, status == 407:
		return Auth
	case status == 408, status == 504:
		return Timeout
	case status == 429, status >= 500:
		return External
	case status == 400, status == 413, status == 415, status == 422:
		return Validation
	default:
		return Unknown
	}
}
