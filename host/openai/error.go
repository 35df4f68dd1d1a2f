package openai

import (
	"net/http"
	"strconv"
	"strings"
)

// Error is a refusal or failure as the API reports it.
type Error struct {
	Status  int    // HTTP status
	Type    string // class of the error, such as "invalid_request_error"
	Message string // for a human: what was found, what is allowed, what to do
	Param   string // the request's field at fault; empty is null
	Code    string // for a program, such as "model_not_found"; empty is null

	RetryAfter int // seconds, for the header of that name; 0 leaves it to the server
}

func (e *Error) Error() string { return e.Message }

const invalidRequest = "invalid_request_error"

// InvalidRequest is a 400 for a request that can't be served as it stands.
func InvalidRequest(param, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Type: invalidRequest, Message: message, Param: param}
}

// ModelNotFound is the 404 for a model that is not served here. It names those that are.
func ModelNotFound(model string, served []string) *Error {
	return &Error{
		Status:  http.StatusNotFound,
		Type:    invalidRequest,
		Message: "the model " + quoted(model) + " does not exist; served here: " + strings.Join(served, ", "),
		Param:   "model",
		Code:    "model_not_found",
	}
}

// ContextLengthExceeded is the 400 for a prompt, or prompt and output together, that don't fit into the model's context.
func ContextLengthExceeded(param, message string) *Error {
	return &Error{
		Status:  http.StatusBadRequest,
		Type:    invalidRequest,
		Message: message,
		Param:   param,
		Code:    "context_length_exceeded",
	}
}

// ResponseNotFound is the 404 for the id of a response that is not stored here.
func ResponseNotFound(id, param string) *Error {
	return &Error{
		Status:  http.StatusNotFound,
		Type:    invalidRequest,
		Message: "no response with the id " + quoted(id) + " is stored here",
		Param:   param,
		Code:    "response_not_found",
	}
}

// RouteNotFound is the 404 for a path that does not exist.
func RouteNotFound(method, path string) *Error {
	return &Error{
		Status:  http.StatusNotFound,
		Type:    invalidRequest,
		Message: "no such route: " + method + " " + path,
		Code:    "unknown_url",
	}
}

// MethodNotAllowed is the 405 for a path that exists under other methods.
func MethodNotAllowed(method, path, allowed string) *Error {
	return &Error{
		Status:  http.StatusMethodNotAllowed,
		Type:    invalidRequest,
		Message: method + " is not allowed for " + path + "; allowed: " + allowed,
		Code:    "method_not_allowed",
	}
}

// BodyTooLarge is the 413 for a body over the limit, in bytes.
func BodyTooLarge(limit int) *Error {
	return &Error{
		Status:  http.StatusRequestEntityTooLarge,
		Type:    invalidRequest,
		Message: "the request body is larger than the limit of " + strconv.Itoa(limit) + " bytes",
		Code:    "request_too_large",
	}
}

// UnsupportedMediaType is the 415 for a body that is not plain JSON.
func UnsupportedMediaType(message string) *Error {
	return &Error{
		Status:  http.StatusUnsupportedMediaType,
		Type:    invalidRequest,
		Message: message,
		Code:    "unsupported_media_type",
	}
}

// Unauthorized is the 401 for a missing or unknown key.
func Unauthorized(message string) *Error {
	return &Error{Status: http.StatusUnauthorized, Type: invalidRequest, Message: message, Code: "invalid_api_key"}
}

// RateLimited is the 429 for a full queue or a spent quota. The caller adds Retry-After.
func RateLimited(code, message string) *Error {
	return &Error{Status: http.StatusTooManyRequests, Type: "rate_limit_error", Message: message, Code: code}
}

// ServerError is the 500 for a fault of ours.
func ServerError(message string) *Error {
	return &Error{Status: http.StatusInternalServerError, Type: "server_error", Message: message, Code: "server_error"}
}

// Unavailable is the 503 while the server loads or drains. The caller adds Retry-After.
func Unavailable(code, message string) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Type: "server_error", Message: message, Code: code}
}

// AppendError appends the error body, which is also the data of a stream's error event.
func AppendError(dst []byte, e *Error) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = appendString(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = appendString(dst, e.Type)
	dst = append(dst, `,"param":`...)
	dst = appendStringOrNull(dst, e.Param)
	dst = append(dst, `,"code":`...)
	dst = appendStringOrNull(dst, e.Code)
	return append(dst, "}}"...)
}
