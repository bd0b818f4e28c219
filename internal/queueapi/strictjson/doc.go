// Package strictjson reads JSON documents without losing anything that a strict API must see: duplicate members, the
// order of members, wrong types, text that is not Unicode, and what follows the document.
//
// The standard library checks the syntax; this package walks the checked bytes in place, so that reading a request
// costs no intermediate tree. What encoding/json repairs silently (lone surrogates, invalid UTF-8) is reported instead,
// because a payload must come back byte for byte or be refused.
package strictjson
