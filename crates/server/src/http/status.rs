//! Status codes: the reason phrases and texts that nginx sends.

/// The status line's code and reason, as nginx words them; `None` for codes it sends as a bare number.
#[must_use]
pub fn line(status: u16) -> Option<&'static str> {
    Some(match status {
        100 => "100 Continue",
        101 => "101 Switching Protocols",
        103 => "103 Early Hints",
        200 => "200 OK",
        201 => "201 Created",
        202 => "202 Accepted",
        204 => "204 No Content",
        206 => "206 Partial Content",
        301 => "301 Moved Permanently",
        302 => "302 Moved Temporarily",
        303 => "303 See Other",
        304 => "304 Not Modified",
        307 => "307 Temporary Redirect",
        308 => "308 Permanent Redirect",
        400 => "400 Bad Request",
        401 => "401 Unauthorized",
        402 => "402 Payment Required",
        403 => "403 Forbidden",
        404 => "404 Not Found",
        405 => "405 Not Allowed",
        406 => "406 Not Acceptable",
        408 => "408 Request Time-out",
        409 => "409 Conflict",
        410 => "410 Gone",
        411 => "411 Length Required",
        412 => "412 Precondition Failed",
        413 => "413 Request Entity Too Large",
        414 => "414 Request-URI Too Large",
        415 => "415 Unsupported Media Type",
        416 => "416 Requested Range Not Satisfiable",
        421 => "421 Misdirected Request",
        429 => "429 Too Many Requests",
        500 => "500 Internal Server Error",
        501 => "501 Not Implemented",
        502 => "502 Bad Gateway",
        503 => "503 Service Temporarily Unavailable",
        504 => "504 Gateway Time-out",
        505 => "505 HTTP Version Not Supported",
        507 => "507 Insufficient Storage",
        _ => return None,
    })
}

/// The heading of nginx's built-in page for a status; `None` where it has no page.
#[must_use]
pub fn page_title(status: u16) -> Option<&'static str> {
    Some(match status {
        494 => "400 Request Header Or Cookie Too Large",
        495 => "400 The SSL certificate error",
        496 => "400 No required SSL certificate was sent",
        // nginx has no page of its own for the number after its last one.
        498 => "404 Not Found",
        497 => "400 The plain HTTP request was sent to HTTPS port",
        302 => "302 Found",
        401 => "401 Authorization Required",
        301 | 303 | 307 | 308 | 400..=599 => return line(status),
        _ => return None,
    })
}
