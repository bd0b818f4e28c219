package system

import (
	"errors"
	"fmt"
	"strconv"
)

// scanner walks JSON without building values: the generator reads three members of a message that has two dozen, and
// what it spends on the others would slow the server that shares its cores.
type scanner struct {
	text []byte
	at   int
}

var errJSON = errors.New("not the JSON that was expected")

// object calls member with the name of each member; member must consume the value.
func (s *scanner) object(member func(name []byte) error) error {
	return s.items('{', '}', func() error {
		name, err := s.rawString()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		return member(name)
	})
}

// array calls item before each item; item must consume it.
func (s *scanner) array(item func() error) error { return s.items('[', ']', item) }

func (s *scanner) items(open, end byte, item func() error) error {
	if err := s.expect(open); err != nil {
		return err
	}
	if s.peek() == end {
		s.at++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if s.peek() == end {
			s.at++
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// rawString returns what is between the quotes, escapes as they are.
func (s *scanner) rawString() ([]byte, error) {
	if err := s.expect('"'); err != nil {
		return nil, err
	}
	for i := s.at; i < len(s.text); i++ {
		switch s.text[i] {
		case '\\':
			i++
		case '"':
			raw := s.text[s.at:i]
			s.at = i + 1
			return raw, nil
		}
	}
	return nil, errJSON
}

func (s *scanner) integer() (int64, error) {
	s.peek()
	start := s.at
	for s.at < len(s.text) && (s.text[s.at] == '-' || s.text[s.at] >= '0' && s.text[s.at] <= '9') {
		s.at++
	}
	number, err := strconv.ParseInt(string(s.text[start:s.at]), 10, 64)
	if err != nil {
		return 0, errJSON
	}
	return number, nil
}

// skip passes over any value.
func (s *scanner) skip() error {
	switch s.peek() {
	case '"':
		_, err := s.rawString()
		return err
	case '{':
		return s.object(func([]byte) error { return s.skip() })
	case '[':
		return s.array(s.skip)
	case 0:
		return errJSON
	}
	start := s.at
	for s.at < len(s.text) && !structural(s.text[s.at]) {
		s.at++
	}
	if s.at == start {
		return errJSON
	}
	return nil
}

func structural(c byte) bool { return c == ',' || c == ']' || c == '}' || c == ':' || c <= ' ' }

// peek is the next byte that is no space, and 0 at the end.
func (s *scanner) peek() byte {
	for s.at < len(s.text) && s.text[s.at] <= ' ' {
		s.at++
	}
	if s.at == len(s.text) {
		return 0
	}
	return s.text[s.at]
}

func (s *scanner) expect(c byte) error {
	if s.peek() != c {
		return fmt.Errorf("%w: no %q at byte %d", errJSON, c, s.at)
	}
	s.at++
	return nil
}
