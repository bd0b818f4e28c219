package docs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
)

var (
	quoted    = regexp.MustCompile("So\\s+`([^`]+)`\\s+and\\s+`([^`]+)`\\s+are\\s+one\\s+group")
	goVersion = regexp.MustCompile(`(?m)^go (\d+\.\d+)`)
)

// TestConceptsStateTheRules holds what the page on concepts says in numbers to the code.
func TestConceptsStateTheRules(t *testing.T) {
	t.Parallel()

	page := strings.Join(strings.Fields(read(t, "docs", "concepts.md")), " ")
	settings := message.DefaultSettings()

	for _, want := range []string{
		fmt.Sprintf("reason %d,%03d bytes", message.MaxReasonBytes/1000, message.MaxReasonBytes%1000),
		fmt.Sprintf("category %d,", message.MaxCategoryBytes),
		fmt.Sprintf("error class %d,", message.MaxErrorClassBytes),
		fmt.Sprintf("consumer instance and version %d each", message.MaxConsumerBytes),
		fmt.Sprintf("the last %d lines and at most %d KiB", message.MaxStackFrames, message.MaxStackBytes/1024),
		fmt.Sprintf("held to 0 to %.0f days", message.MaxDelay.Hours()/24),
		"give " + waits(settings.Backoff) + " … seconds, up to an hour",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}

	if settings.Backoff.Max != time.Hour {
		t.Errorf("the longest wait is %s", settings.Backoff.Max)
	}
}

func waits(backoff message.Backoff) string {
	var seconds []string

	for failures := 1; failures <= 4; failures++ {
		seconds = append(seconds, fmt.Sprintf("%.0f", backoff.Delay(failures, 0).Seconds()))
	}

	return strings.Join(seconds, ", ")
}

func TestFingerprintExample(t *testing.T) {
	t.Parallel()

	reasons := quoted.FindStringSubmatch(read(t, "docs", "concepts.md"))
	if reasons == nil {
		t.Fatal("the page has no example of two reasons in one group")
	}

	a, b := message.Fingerprint(message.External, reasons[1]), message.Fingerprint(message.External, reasons[2])
	if a != b || reasons[1] == reasons[2] {
		t.Errorf("%q and %q are not one group", reasons[1], reasons[2])
	}
}

func TestReadmeNamesTheGoVersion(t *testing.T) {
	t.Parallel()

	version := goVersion.FindStringSubmatch(read(t, "go.mod"))
	if version == nil {
		t.Fatal("go.mod names no version")
	}

	if want := "Go " + version[1]; !strings.Contains(read(t, "README.md"), want) {
		t.Errorf("the README does not ask for %s", want)
	}
}
