//! Why a message was refused: one reason per case, the status sent for it, and the words for the error log.

/// A reason to refuse a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    InvalidMethod,
    InvalidRequestLine,
    /// A request line without a version whose method is not GET.
    InvalidHttp09Method,
    UnsupportedVersion,
    RequestLineTooLong,
    InvalidHeaderLine,
    HeaderTooLarge,
    TooManyHeaders,
    DuplicateHeader,
    InvalidHost,
    /// The host of an absolute URI.
    InvalidAuthority,
    MissingHost,
    InvalidContentLength,
    /// Content-Length beside Transfer-Encoding: the classic of request smuggling.
    LengthWithTransferEncoding,
    TransferEncodingInHttp10,
    UnknownTransferEncoding,
    InvalidChunk,
    MethodNotAllowed,
}

impl Error {
    /// nginx's status. 494 is internal: `error_page` can catch it, and what goes on the wire is 400.
    pub fn status(self) -> u16 {
        match self {
            Error::RequestLineTooLong => 414,
            Error::HeaderTooLarge | Error::TooManyHeaders => 494,
            Error::UnsupportedVersion => 505,
            Error::UnknownTransferEncoding => 501,
            Error::MethodNotAllowed => 405,
            _ => 400,
        }
    }

    /// The words for the error log.
    pub fn as_str(self) -> &'static str {
        match self {
            Error::InvalidMethod => "client sent invalid method",
            Error::InvalidRequestLine => "client sent invalid request",
            Error::InvalidHttp09Method => "client sent invalid method in HTTP/0.9 request",
            Error::UnsupportedVersion => "client sent invalid version",
            Error::RequestLineTooLong => "client sent too long URI",
            Error::InvalidHeaderLine => "client sent invalid header line",
            Error::HeaderTooLarge => "client sent too large request header",
            Error::TooManyHeaders => "client sent too many header lines",
            Error::DuplicateHeader => "client sent duplicate header line",
            Error::InvalidHost => "client sent invalid host",
            Error::InvalidAuthority => "client sent invalid host in request line",
            Error::MissingHost => "client sent HTTP/1.1 request without \"Host\" header",
            Error::InvalidContentLength => "client sent invalid \"Content-Length\" header",
            Error::LengthWithTransferEncoding => {
                "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time"
            }
            Error::TransferEncodingInHttp10 => {
                "client sent HTTP/1.0 request with \"Transfer-Encoding\" header"
            }
            Error::UnknownTransferEncoding => "client sent unknown \"Transfer-Encoding\"",
            Error::InvalidChunk => "client sent invalid chunked body",
            Error::MethodNotAllowed => "client sent a method the server refuses",
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for Error {}
