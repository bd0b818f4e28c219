package client

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
)

// stackOf is the stack of an error, innermost frame first, as many lines as the API keeps; empty when there is none.
// The innermost error that has one knows best where it began.
func stackOf(err error) string {
	stack := ""
	eachError(err, func(err error) {
		if own := ownStack(err); own != "" {
			stack = own
		}
	})
	return stack
}

func ownStack(err error) string {
	switch err := err.(type) { //nolint:errorlint // each error of the chain is asked
	case *panicError:
		return formatFrames(afterPanic(err.frames))
	case *stackError:
		return formatFrames(err.frames)
	case interface{ Stack() []byte }:
		return firstLines(string(err.Stack()))
	}
	return formatFrames(foreignFrames(err))
}

// foreignFrames are the program counters of an error whose method StackTrace returns a list of them, under whatever
// type: github.com/pkg/errors and what follows its manner.
func foreignFrames(err error) []uintptr {
	method := reflect.ValueOf(err).MethodByName("StackTrace")
	if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
		return nil
	}
	result := method.Type().Out(0)
	if result.Kind() != reflect.Slice || result.Elem().Kind() != reflect.Uintptr {
		return nil
	}
	list := method.Call(nil)[0]
	frames := make([]uintptr, list.Len())
	for i := range frames {
		frames[i] = uintptr(list.Index(i).Uint())
	}
	return frames
}

// afterPanic drops the frames of the recovery and of the runtime, so that the stack begins where the handler's code
// panicked. A panic during a panic has several; the first one is the cause.
func afterPanic(counters []uintptr) []uintptr {
	begin := 0
	for i, counter := range counters {
		if functionAt(counter) == "runtime.gopanic" {
			begin = i + 1
		}
	}
	for begin < len(counters) && strings.HasPrefix(functionAt(counters[begin]), "runtime.") {
		begin++
	}
	return counters[begin:]
}

func functionAt(counter uintptr) string {
	frame, _ := runtime.CallersFrames([]uintptr{counter}).Next()
	return frame.Function
}

// formatFrames writes a frame a line: the function, the file and the line.
func formatFrames(counters []uintptr) string {
	if len(counters) == 0 {
		return ""
	}
	var lines []string
	for frames := runtime.CallersFrames(counters); len(lines) < maxStackLines; {
		frame, more := frames.Next()
		if frame.Function != "" && frame.Function != "runtime.goexit" {
			lines = append(lines, fmt.Sprintf("%s (%s:%d)", frame.Function, frame.File, frame.Line))
		}
		if !more {
			break
		}
	}
	return strings.Join(lines, "\n")
}

// firstLines are as many lines as the API keeps; it would keep the last ones, which say least.
func firstLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[:min(len(lines), maxStackLines)], "\n")
}
