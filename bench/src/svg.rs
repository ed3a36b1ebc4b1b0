//! What every picture begins and ends with.
//!
//! Invariants: white ground, one sans-serif face, so that pictures read alike on any page.
//! Does not do: charts; each experiment draws its own.

/// A picture and the ending of its file's name.
pub(crate) struct Drawing {
    pub(crate) ending: String,
    pub(crate) svg: String,
}

/// A whole picture of `width` by `height` pixels around `body`.
pub(crate) fn picture(width: f64, height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"10\">\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>{body}</svg>\n"
    )
}
