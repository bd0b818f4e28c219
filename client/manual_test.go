package client

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func manual(t *testing.T) string {
	t.Helper()
	return readFile(t, "../docs/client.md")
}

var goBlock = regexp.MustCompile("(?s)\n```go\n(.*?)\n```\n")

// blocks are the Go blocks of the manual: whole programs, and parts.
func blocks(t *testing.T) (programs, parts []string) {
	t.Helper()
	for _, match := range goBlock.FindAllStringSubmatch(manual(t), -1) {
		if strings.HasPrefix(match[1], "package main\n") {
			programs = append(programs, match[1])
		} else {
			parts = append(parts, match[1])
		}
	}
	return programs, parts
}

// flat is code without the indentation of where it stands.
func flat(code string) string {
	var lines []string
	for line := range strings.Lines(code) {
		lines = append(lines, strings.TrimLeft(line, "\t"))
	}
	return strings.TrimSpace(strings.Join(lines, ""))
}

// TestManualShowsExamples: what the manual shows in parts is taken from examples that run.
func TestManualShowsExamples(t *testing.T) {
	t.Parallel()
	examples := flat(readFile(t, "example_test.go"))
	_, parts := blocks(t)
	if len(parts) < 5 {
		t.Errorf("there are %d parts", len(parts))
	}
	for _, part := range parts {
		if !strings.Contains(examples, flat(part)) {
			t.Errorf("no example has\n%s", part)
		}
	}
}

// TestManualsProgramsRun: the producer sends a message, and the worker handles it and ends when it is told to.
func TestManualsProgramsRun(t *testing.T) {
	t.Parallel()
	programs, _ := blocks(t)
	if len(programs) != 2 {
		t.Fatalf("there are %d programs", len(programs))
	}
	b := ownAPI(t).bench(t)
	b.queue = "orders"
	var commands []*exec.Cmd
	for _, program := range programs {
		dir := t.TempDir()
		source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
		if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source).CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		command := exec.CommandContext(t.Context(), binary)
		command.Env = append(os.Environ(), "DEADLETTER_URL="+b.api.URL)
		commands = append(commands, command)
	}
	worker, producer := commands[0], commands[1]
	var log bytes.Buffer
	worker.Stderr = &log
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	if out, err := producer.CombinedOutput(); err != nil || string(out) != "message 1 is pending\n" {
		t.Errorf("the producer: %v, %q", err, out)
	}
	b.awaitStatus(1, Succeeded)
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	if !strings.Contains(log.String(), `shipping order 1: {"order": 7}`) {
		t.Errorf("the worker wrote %q", log.String())
	}
}

// TestManualNamesEverything: every field, option, method and error is spoken of.
func TestManualNamesEverything(t *testing.T) {
	t.Parallel()
	page := manual(t)
	var names []string
	for _, kind := range []reflect.Type{reflect.TypeFor[Worker](), reflect.TypeFor[Breaker]()} {
		for field := range kind.Fields() {
			names = append(names, field.Name)
		}
	}
	for method := range reflect.TypeFor[*Client]().Methods() {
		names = append(names, method.Name)
	}
	for _, pattern := range []struct{ file, expression string }{
		{"options.go", `(?m)^func (With\w+)\(`},
		{"enqueue.go", `(?m)^func ([A-Z]\w+)\(`},
		{"token.go", `(?m)^func ([A-Z]\w+)\(`},
		{"report.go", `(?m)^func ([A-Z]\w+)\(`},
		{"errors.go", `(?m)^\t(Err\w+) error = `},
		{"worker.go", `(?m)^\t(Err\w+) = `},
	} {
		found := regexp.MustCompile(pattern.expression).FindAllStringSubmatch(readFile(t, pattern.file), -1)
		if len(found) == 0 {
			t.Errorf("%s has nothing of %s", pattern.file, pattern.expression)
		}
		for _, match := range found {
			names = append(names, match[1])
		}
	}
	for _, name := range names {
		if !regexp.MustCompile("`[^`\n]*\\b" + name + "\\b").MatchString(page) {
			t.Errorf("the manual does not speak of %s", name)
		}
	}
}

// TestManualStatesTheDefaults holds the tables' numbers to the code.
func TestManualStatesTheDefaults(t *testing.T) {
	t.Parallel()
	c, err := New("http://h")
	if err != nil {
		t.Fatal(err)
	}
	w, err := Worker{Client: c, Queue: "q", Handler: func(context.Context, *Message) error { return nil }}.complete()
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{
		"Concurrency": w.Concurrency, "Prefetch": w.Prefetch, "PollWait": w.PollWait, "ShutdownGrace": w.ShutdownGrace,
		"AckBatch": w.AckBatch, "AckDelay": w.AckDelay, "FailurePercent": defaultFailurePercent,
		"MinSample": defaultMinSample, "Window": defaultWindow, "OpenFor": defaultOpenFor,
		"Probes": defaultProbes, "WithTimeout": c.timeout, "WithRetries": c.retries,
	} {
		want := fmt.Sprint(value)
		if d, isDuration := value.(time.Duration); isDuration {
			want = regexp.MustCompile(`(\d)(ms|[ms])(0s)?$`).ReplaceAllString(d.String(), "$1 $2")
		}
		if !regexp.MustCompile("(?m)^\\| `" + name + "` \\|.*\\| " + want + " \\|$").MatchString(manual(t)) {
			t.Errorf("no row says that %s is %s by default", name, want)
		}
	}
}
