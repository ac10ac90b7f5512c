//! Small charts as SVG text: bars, and lines over a grid.

use super::html::escape;

/// A named line of a chart.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

const COLORS: [&str; 3] = ["#8a97ab", "#d08c3f", "#1f6f5c"];
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 270.0;
/// Room for the axes: left, top, right, bottom.
const FRAME: (f64, f64, f64, f64) = (52.0, 48.0, 14.0, 44.0);

/// A chart as an image of its own.
fn alone(width: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {HEIGHT}\" width=\"{width}\" \
         height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#333\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

/// Counts as bars; the label of a bar is its place.
pub(crate) fn bars(title: &str, x_name: &str, counts: &[usize]) -> String {
    let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let (left, top, right, bottom) = FRAME;
    let (inner, tall) = (WIDTH - left - right, HEIGHT - top - bottom);
    let step = inner / counts.len().max(1) as f64;
    let mut body = heading(title, x_name);
    for (place, &count) in counts.iter().enumerate() {
        let height = tall * count as f64 / most;
        let x = left + step * place as f64;
        body += &format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{}\"/>\n",
            x + 0.1 * step,
            top + tall - height,
            0.8 * step,
            COLORS[2]
        );
        let middle = x + step / 2.0;
        if count > 0 {
            body += &text(middle, top + tall - height - 4.0, "middle", &count.to_string());
        }
        body += &text(middle, HEIGHT - bottom + 14.0, "middle", &place.to_string());
    }
    alone(WIDTH, &body)
}

/// Lines over a grid. With `diagonal`, a dashed y = x shows what was promised.
pub(crate) fn curves(title: &str, x_name: &str, lines: &[Line], diagonal: bool) -> String {
    alone(WIDTH, &chart(title, x_name, lines, diagonal))
}

/// Two charts side by side, for a README.
pub(crate) fn picture(left: (&str, &str, &[Line]), right: (&str, &str, &[Line])) -> String {
    let one = chart(left.0, left.1, left.2, true);
    let two = chart(right.0, right.1, right.2, false);
    alone(2.0 * WIDTH, &format!("{one}<g transform=\"translate({WIDTH} 0)\">\n{two}</g>\n"))
}

fn chart(title: &str, x_name: &str, lines: &[Line], diagonal: bool) -> String {
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let extent = |pick: fn((f64, f64)) -> f64| {
        let ends = all()
            .map(pick)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if ends.0 < ends.1 { ends } else { (ends.0 - 0.5, ends.0 + 0.5) }
    };
    if all().next().is_none() {
        return heading(title, x_name);
    }
    let (x_low, x_high) = extent(|(x, _)| x);
    let (y_low, y_high) = extent(|(_, y)| y);
    let margin = 0.06 * (y_high - y_low);
    let (y_low, y_high) = (y_low - margin, y_high + margin);
    let (left, top, right, bottom) = FRAME;
    let (inner, tall) = (WIDTH - left - right, HEIGHT - top - bottom);
    let across = |x: f64| left + inner * (x - x_low) / (x_high - x_low);
    let up = |y: f64| top + tall * (y_high - y) / (y_high - y_low);

    let mut body = heading(title, x_name);
    for y in ticks(y_low, y_high) {
        body += &format!(
            "<line x1=\"{left}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#e4e4e4\"/>\n",
            WIDTH - right,
            up(y),
            up(y)
        );
        body += &text(left - 6.0, up(y) + 4.0, "end", &short(y));
    }
    for x in ticks(x_low, x_high) {
        body += &text(across(x), HEIGHT - bottom + 14.0, "middle", &short(x));
    }
    if diagonal {
        let (low, high) = (x_low.max(y_low), x_high.min(y_high));
        body += &format!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#999\" stroke-dasharray=\"4 4\"/>\n",
            across(low),
            up(low),
            across(high),
            up(high)
        );
    }
    for (line, color) in lines.iter().zip(COLORS.iter().cycle()) {
        let points: Vec<String> =
            line.points.iter().map(|&(x, y)| format!("{:.1},{:.1}", across(x), up(y))).collect();
        body += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\n",
            points.join(" ")
        );
    }
    // The names stand above the grid, so that no line can cross them.
    let step = inner / lines.len() as f64;
    for (place, (line, color)) in lines.iter().zip(COLORS.iter().cycle()).enumerate() {
        let x = left + step * place as f64;
        body += &format!("<rect x=\"{x:.1}\" y=\"31\" width=\"12\" height=\"3\" fill=\"{color}\"/>\n");
        body += &text(x + 17.0, 36.0, "start", line.name);
    }
    body
}

fn heading(title: &str, x_name: &str) -> String {
    let middle = (WIDTH + FRAME.0 - FRAME.2) / 2.0;
    format!("<g font-weight=\"bold\">{}</g>\n", text(middle, 18.0, "middle", title))
        + &text(middle, HEIGHT - 10.0, "middle", x_name)
}

fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n", escape(text))
}

/// About five round numbers.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|of| of * power).into_iter().find(|&step| step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    (first..).map(|at| at as f64 * step).take_while(|&at| at <= high + 1e-9 * step).take(20).collect()
}

fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 1.0).len(), 6);
        assert_eq!(ticks(1.3, 9.2), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!(short(0.3), "0.3");
        assert_eq!(short(-0.0), "0");
    }

    #[test]
    fn charts_without_points_are_still_charts() {
        assert!(curves("t", "x", &[], false).ends_with("</svg>\n"));
        let flat = Line { name: "flat", points: vec![(1.0, 2.0)] };
        assert!(!curves("t", "x", &[flat], true).contains("NaN"));
        assert!(!bars("t", "x", &[]).contains("NaN"));
    }
}
