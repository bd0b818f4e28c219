package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	code    = regexp.MustCompile("(?s)\n```.*?\n```\n|`[^`\n]*`")
)

// TestLinks follows every link within the repository, down to the heading.
func TestLinks(t *testing.T) {
	t.Parallel()

	for _, path := range pages(t) {
		t.Run(path, func(t *testing.T) {
			t.Parallel()

			for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, path), "``"), -1) {
				if !strings.Contains(match[1], "://") {
					follow(t, path, match[1])
				}
			}
		})
	}
}

func follow(t *testing.T, from, target string) {
	t.Helper()

	file, anchor, hasAnchor := strings.Cut(target, "#")

	path := from
	if file != "" {
		path = filepath.Join(filepath.Dir(from), file)
	}

	if _, err := os.Stat(filepath.Join(root, path)); err != nil {
		t.Errorf("%s: %s does not exist", target, path)

		return
	}

	if hasAnchor && !anchors(read(t, path))[anchor] {
		t.Errorf("%s: %s has no such heading", target, path)
	}
}

// anchors are the names that GitHub gives to the headings of a page.
func anchors(page string) map[string]bool {
	names := make(map[string]bool)

	for _, match := range heading.FindAllStringSubmatch(page, -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ' || r == '-':
				return '-'
			case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, match[1])
		names[name] = true
	}

	return names
}

// TestDecisionsAreListed holds the list of decisions to the files there are.
func TestDecisionsAreListed(t *testing.T) {
	t.Parallel()

	list := read(t, "docs", "adr", "README.md")

	files, err := filepath.Glob(filepath.Join(root, "docs", "adr", "[0-9]*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no decisions: %v", err)
	}

	for i, path := range files {
		name := filepath.Base(path)
		if !strings.Contains(list, "("+name+")") {
			t.Errorf("%s is not listed", name)
		}

		if want := fmt.Sprintf("%04d-", i+1); !strings.HasPrefix(name, want) {
			t.Errorf("%s: the number is not %s", name, want)
		}

		decision := read(t, "docs", "adr", name)
		for _, part := range []string{"\n## Context\n", "\n## Decision\n", "\n## Alternatives\n", "\n## Consequences\n"} {
			if !strings.Contains(decision, part) {
				t.Errorf("%s has no part %q", name, strings.TrimSpace(part))
			}
		}
	}
}
