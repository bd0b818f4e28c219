package queueapi

import (
	"errors"
	"fmt"
	"time"

	"deadletter.dev/deadletter/internal/message"
)

// Limits bound what one server takes on. Zero fields take the default.
type Limits struct {
	// MaxPayloadBytes is the largest payload of one message; 1 MiB by default.
	MaxPayloadBytes int
	// MaxConcurrentRequests bounds the requests that are being handled at once; long polls that wait do not count.
	// 512 by default.
	MaxConcurrentRequests int
	// MaxLongPolls bounds the claims that wait at once; 10,000 by default.
	MaxLongPolls int
	// BodyTimeout is how long a body may take for its next part; 10 s by default.
	BodyTimeout time.Duration
}

const (
	defaultMaxPayloadBytes       = 1 << 20
	highestMaxPayloadBytes       = 64 << 20
	defaultMaxConcurrentRequests = 512
	defaultMaxLongPolls          = 10_000
	defaultBodyTimeout           = 10 * time.Second
	defaultDrainTimeout          = 25 * time.Second
)

func (l Limits) withDefaults() Limits {
	if l.MaxPayloadBytes == 0 {
		l.MaxPayloadBytes = defaultMaxPayloadBytes
	}
	if l.MaxConcurrentRequests == 0 {
		l.MaxConcurrentRequests = defaultMaxConcurrentRequests
	}
	if l.MaxLongPolls == 0 {
		l.MaxLongPolls = defaultMaxLongPolls
	}
	if l.BodyTimeout == 0 {
		l.BodyTimeout = defaultBodyTimeout
	}
	return l
}

func (l Limits) validate() error {
	switch {
	case l.MaxPayloadBytes < 1 || l.MaxPayloadBytes > highestMaxPayloadBytes:
		return fmt.Errorf("max payload bytes must be from 1 to %d", highestMaxPayloadBytes)
	case l.MaxConcurrentRequests < 1:
		return errors.New("max concurrent requests must be at least 1")
	case l.MaxLongPolls < 1:
		return errors.New("max long polls must be at least 1")
	case l.BodyTimeout < 0:
		return errors.New("body timeout must not be negative")
	default:
		return nil
	}
}

const (
	// maxBatch is the most messages of one enqueue, claim, succeed or fail.
	maxBatch = 1000
	// maxReportBytes is how much is read of one failure report, far above what is kept of it; up to maxSeenBytes it is
	// only searched for the lease token.
	maxReportBytes = 8 << 20
	maxSeenBytes   = 64 << 20
	// maxSettleBytes is the largest body of a batch of settlements.
	maxSettleBytes = 16 << 20
	// maxSmallBytes is the largest body of a request that carries neither payloads nor reports.
	maxSmallBytes = 64 << 10
	// minEnqueueBytes keeps room for a full batch of small messages where the payload limit is small.
	minEnqueueBytes = 16 << 20
	// payloadEscape is room for a payload of the largest size that is written wholly in JSON escapes, and its headers.
	payloadEscape = 8

	maxWaitSeconds       = 20
	maxVisibilitySeconds = int64(message.MaxVisibilityTimeout / time.Second)
	maxDelaySeconds      = int64(message.MaxDelay / time.Second)
	maxTTLSeconds        = int64(message.MaxTTL / time.Second)
)

// maxEnqueueBytes is the largest body of an enqueue, whatever it holds.
func (l Limits) maxEnqueueBytes() int64 {
	return max(minEnqueueBytes, int64(payloadEscape)*int64(l.MaxPayloadBytes))
}
