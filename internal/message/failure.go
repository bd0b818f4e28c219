package message

import (
	"strings"
	"time"
)

// Category says what kind of failure it was. Besides the ones named here, any name of the user's is a category.
type Category string

const (
	// Validation is a message the worker rejects as malformed.
	Validation Category = "VALIDATION"
	// Timeout is work, or a lease, that ran out of time.
	Timeout Category = "TIMEOUT"
	// Auth is a refused credential or permission.
	Auth Category = "AUTH"
	// External is a dependency that failed.
	External Category = "EXTERNAL"
	// Poison is a message that was delivered too often, such as one that kills its workers.
	Poison Category = "POISON"
	// Expired is a message whose time to live passed.
	Expired Category = "EXPIRED"
	// Overflowed is a message that its queue had no room for.
	Overflowed Category = "OVERFLOW"
	// Unknown is everything else. What a worker reports without a category is classified first; see Classify.
	Unknown Category = "UNKNOWN"
)

// Bounds of a stored failure, in bytes unless said otherwise.
const (
	MaxReasonBytes     = 4096
	MaxCategoryBytes   = 64
	MaxErrorClassBytes = 256
	MaxConsumerBytes   = 256
	MaxStackFrames     = 20
	MaxStackBytes      = 16 * 1024
)

// Failure is the record of one failure, cleaned and bounded.
type Failure struct {
	// Reason is the worker's error message.
	Reason string
	// Category is the kind of failure.
	Category Category
	// Fingerprint groups failures of one cause; see Fingerprint.
	Fingerprint string
	// ErrorClass is the type of error in the worker's language.
	ErrorClass string
	// StackTrace holds the last frames of the worker's stack.
	StackTrace string
	// Consumer is who failed.
	Consumer Consumer
	// At is when the failure was recorded.
	At time.Time
}

// Report is what a worker says of a failure. Any content is acceptable: NewFailure cleans it.
type Report struct {
	Reason     string
	Category   string
	ErrorClass string
	StackTrace string
	// Permanent kills the message at once, retries left or not.
	Permanent bool
	// RetryAfter, when set, replaces the backoff of this failure; it is held to [0, MaxDelay].
	RetryAfter *time.Duration
	Consumer   Consumer

	prepared *Failure
}

// Prepare does the costly part of NewFailure beforehand: cleaning and fingerprinting a thousand reports takes a while,
// which nobody should wait for with messages locked.
func (r Report) Prepare() Report {
	failure := NewFailure(r, Consumer{}, time.Time{})
	r.prepared = &failure
	return r
}

// NewFailure cleans a report into a storable failure. held is who claimed the message, for reports that do not say.
func NewFailure(report Report, held Consumer, at time.Time) Failure {
	failure := clean(report)
	failure.At = at
	if failure.Consumer.Instance == "" {
		failure.Consumer.Instance = held.Instance
	}
	if failure.Consumer.Version == "" {
		failure.Consumer.Version = held.Version
	}
	return failure
}

// clean is the report as a failure, as it was prepared or else now.
func clean(report Report) Failure {
	if report.prepared != nil {
		return *report.prepared
	}
	failure := Failure{
		Reason:     Clean(report.Reason, MaxReasonBytes),
		Category:   NewCategory(report.Category),
		ErrorClass: Clean(report.ErrorClass, MaxErrorClassBytes),
		StackTrace: Clean(lastLines(report.StackTrace, MaxStackFrames), MaxStackBytes),
		Consumer:   NewConsumer(report.Consumer),
	}
	if strings.TrimSpace(report.Category) == "" {
		failure.Category = Classify(failure.ErrorClass, failure.Reason)
	}
	failure.Fingerprint = Fingerprint(failure.Category, failure.Reason)
	return failure
}

// NewCategory cleans a category name; an empty one is Unknown.
func NewCategory(raw string) Category {
	name := strings.TrimSpace(Clean(raw, MaxCategoryBytes))
	if name == "" {
		return Unknown
	}
	return Category(name)
}

// NewConsumer cleans and bounds what a worker says of itself.
func NewConsumer(raw Consumer) Consumer {
	return Consumer{
		Instance: Clean(raw.Instance, MaxConsumerBytes),
		Version:  Clean(raw.Version, MaxConsumerBytes),
	}
}
