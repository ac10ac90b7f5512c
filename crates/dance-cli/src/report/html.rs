//! A page as text.

/// How a page of ours begins: what may be overwritten without asking.
pub(crate) const MARK: &str = "<!doctype html>\n<!-- dance demo report -->\n";

const STYLE: &str = "body{font:16px/1.5 sans-serif;color:#222;max-width:52rem;margin:2rem auto;padding:0 1rem}\
h1,h2{line-height:1.2}table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .8rem;text-align:right;\
border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}.chart{display:inline-block;margin:.3rem}\
.miss{color:#a33}small{color:#666}dt{margin-top:.8rem}";

/// A page of sections: heading and ready-made HTML.
pub(crate) fn page(title: &str, sections: &[(&str, String)]) -> String {
    let mut text = format!(
        "{MARK}<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>{STYLE}</style></head>\n\
         <body>\n<h1>{0}</h1>\n",
        escape(title)
    );
    for (heading, body) in sections {
        text += &format!("<h2>{}</h2>\n{body}\n", escape(heading));
    }
    text + "</body></html>\n"
}

pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
        cells.map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect::<String>()
    };
    let head = cells("th", &mut header.iter().copied());
    let body: String = rows
        .iter()
        .map(|row| format!("<tr>{}</tr>\n", cells("td", &mut row.iter().map(String::as_str))))
        .collect();
    format!("<table><tr>{head}</tr>\n{body}</table>")
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
