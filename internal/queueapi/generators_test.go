package queueapi

import (
	"math"
	"strings"
	"time"

	"pgregory.net/rapid"

	"deadletter.dev/deadletter/internal/message"
)

// texts have all that is written in its own way, in any order, and what is no UTF-8.
func texts() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{
			"plain text that fills a few words", "<b>&</b>", "\u2028", "\u2029", "\"", "\\", "\x00", "\x7f", "\n\r\t\b\f", "é世😀",
		}),
		rapid.StringN(0, 8, -1),
		rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(t, "bytes")) }),
	)
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "pieces"), "")
	})
}

func times() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		nanos := rapid.OneOf(rapid.Just(int64(0)), rapid.Just(int64(120_000_000)), rapid.Int64Range(0, 999_999_999))
		at := time.Unix(rapid.Int64Range(0, 1<<35).Draw(t, "seconds"), nanos.Draw(t, "nanos"))
		return at.In(time.FixedZone("somewhere", rapid.IntRange(-12, 14).Draw(t, "zone")*3600))
	})
}

func anyMessages() *rapid.Generator[message.Message] {
	id := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Min(1))
	count := rapid.IntRange(0, math.MaxInt32)
	header := rapid.Custom(func(t *rapid.T) message.Header {
		return message.Header{Name: texts().Draw(t, "name"), Value: texts().Draw(t, "value")}
	})
	return rapid.Custom(func(t *rapid.T) message.Message {
		payload := []byte(texts().Draw(t, "payload"))
		size := len(payload)
		if rapid.Bool().Draw(t, "cut") {
			payload = payload[:rapid.IntRange(0, size).Draw(t, "left")]
		}
		return message.Message{
			ID: id.Draw(t, "id"), Queue: texts().Draw(t, "queue"), Payload: payload, PayloadSize: size,
			Headers:    rapid.SliceOfN(header, 0, 2).Draw(t, "headers"),
			Status:     rapid.SampledFrom(message.Statuses()).Draw(t, "status"),
			Priority:   rapid.IntRange(0, message.MaxPriority).Draw(t, "priority"),
			GroupKey:   texts().Draw(t, "group key"),
			ExpiresAt:  rapid.Ptr(times(), true).Draw(t, "expires at"),
			RetryCount: count.Draw(t, "retries"), MaxRetries: count.Draw(t, "most"),
			DeliveryCount: count.Draw(t, "deliveries"), ReplayCount: count.Draw(t, "replays"),
			RetryAfter: rapid.Ptr(times(), true).Draw(t, "retry after"), Lease: rapid.Ptr(leases(), true).Draw(t, "lease"),
			LastFailure:    rapid.Ptr(failures(), true).Draw(t, "failure"),
			FirstFailureAt: rapid.Ptr(times(), true).Draw(t, "first failure"),
			DeadAt:         rapid.Ptr(times(), true).Draw(t, "dead"),
			CreatedAt:      times().Draw(t, "created"), UpdatedAt: times().Draw(t, "updated"),
		}
	})
}

func leases() *rapid.Generator[message.Lease] {
	return rapid.Custom(func(t *rapid.T) message.Lease {
		return message.Lease{Token: texts().Draw(t, "token"), ExpiresAt: times().Draw(t, "expires")}
	})
}

func failures() *rapid.Generator[message.Failure] {
	return rapid.Custom(func(t *rapid.T) message.Failure {
		return message.Failure{
			Reason: texts().Draw(t, "reason"), Category: message.Category(texts().Draw(t, "category")),
			Fingerprint: texts().Draw(t, "fingerprint"), ErrorClass: texts().Draw(t, "class"),
			Consumer: message.Consumer{Instance: texts().Draw(t, "instance"), Version: texts().Draw(t, "version")},
			At:       times().Draw(t, "at"),
		}
	})
}
