//! Plots as SVG, written by hand: a few hundred bytes of markup each, coloured by the page's style sheet, so that one plot
//! serves light, dark and print.

use crate::html::{STYLE, escape};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 42.0;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A line through its points.
    Line,
    /// Dots.
    Dots,
    /// Bars from 0 up.
    Bars,
}

/// Points with a name and a colour.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// x and y.
    pub points: Vec<(f64, f64)>,
    /// How it is drawn.
    pub style: Style,
    /// Place in the style sheet's list of colours.
    pub color: usize,
}

/// Two axes and what is between them.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Its name in the page.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What goes to the right.
    pub x: String,
    /// What goes up.
    pub y: String,
    /// What is drawn.
    pub series: Vec<Series>,
    /// `(x, low, high)`: a shaded region.
    pub band: Vec<(f64, f64, f64)>,
    /// Both axes by powers of ten.
    pub logarithmic: bool,
    /// Whether the series are named beneath.
    pub legend: bool,
    /// Words in place of the numbers at x = 0, 1 …
    pub words: Vec<String>,
    /// No numbers at the axes.
    pub bare: bool,
}

impl Chart {
    /// The figure with its caption; nothing when there are no points.
    pub fn to_html(&self) -> String {
        let svg = self.to_svg();
        if svg.is_empty() {
            return svg;
        }
        let legend = if self.legend { self.legend_html() } else { String::new() };
        format!("<figure>{svg}{legend}<figcaption>{}</figcaption></figure>", escape(&self.title))
    }

    /// The drawing by itself; nothing when there are no points.
    fn to_svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let shown = |&(x, y): &(f64, f64)| {
            x.is_finite() && y.is_finite() && (!self.logarithmic || (x > 0.0 && y > 0.0))
        };
        if !points().any(|point| shown(&point)) {
            return String::new();
        }
        let bars = self.series.iter().any(|series| series.style == Style::Bars);
        let band = self.band.iter().flat_map(|&(x, low, high)| [(x, low), (x, high)]);
        let all: Vec<(f64, f64)> = points().filter(shown).chain(band).collect();
        let mut x_axis = Axis::new(all.iter().map(|point| point.0), self.logarithmic, (LEFT, WIDTH - RIGHT));
        let mut y_axis = Axis::new(all.iter().map(|point| point.1), self.logarithmic, (HEIGHT - BOTTOM, TOP));
        if bars {
            (x_axis.low, x_axis.high) = (-0.6, x_axis.most + 0.6);
            y_axis.low = 0.0;
        }
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\" id=\"{}\">",
            escape(&self.title),
            escape(&self.id)
        );
        svg += &self.axes(&x_axis, &y_axis, bars);
        if !self.band.is_empty() {
            let at = |(x, y): (f64, f64)| format!("{:.1},{:.1}", x_axis.place(x), y_axis.place(y));
            let upper = self.band.iter().map(|&(x, _, high)| at((x, high)));
            let lower = self.band.iter().rev().map(|&(x, low, _)| at((x, low)));
            svg += &format!(
                "<polygon class=\"band\" points=\"{}\"/>",
                upper.chain(lower).collect::<Vec<_>>().join(" ")
            );
        }
        for series in &self.series {
            let points = series.points.iter().filter(|point| shown(point));
            let places: Vec<(f64, f64)> = points.map(|&(x, y)| (x_axis.place(x), y_axis.place(y))).collect();
            svg += &draw(series, &places, y_axis.place(y_axis.low));
        }
        svg + "</svg>"
    }

    fn axes(&self, x_axis: &Axis, y_axis: &Axis, bars: bool) -> String {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let mut svg = format!("<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>");
        let ticks = |axis: &Axis| if self.bare { Vec::new() } else { axis.ticks() };
        let named: Vec<(f64, String)> = (0u32..).map(f64::from).zip(self.words.iter().cloned()).collect();
        let across = if named.is_empty() {
            ticks(x_axis).into_iter().map(|tick| (tick, label(tick))).collect()
        } else {
            named
        };
        for (tick, text) in across {
            let x = x_axis.place(tick);
            if !bars {
                svg += &format!("<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/>");
            }
            svg += &format!(
                "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 14.0,
                escape(&text)
            );
        }
        for tick in ticks(y_axis) {
            let y = y_axis.place(tick);
            svg += &format!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>");
            svg += &format!(
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                label(tick)
            );
        }
        let (middle_x, middle_y) = (f64::midpoint(LEFT, right), f64::midpoint(TOP, bottom));
        svg += &format!(
            "<text x=\"{middle_x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 8.0,
            escape(&self.x)
        );
        svg + &format!(
            "<text transform=\"translate(12 {middle_y}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escape(&self.y)
        )
    }

    fn legend_html(&self) -> String {
        let mut html = String::from("<ul class=\"legend\">");
        for series in self.series.iter().filter(|series| !series.points.is_empty()) {
            html += &format!("<li><i class=\"c{}\"></i>{}</li>", series.color % 16, escape(&series.name));
        }
        html + "</ul>"
    }
}

fn draw(series: &Series, places: &[(f64, f64)], floor: f64) -> String {
    let color = format!("c{}", series.color % 16);
    let title = format!("<title>{}</title>", escape(&series.name));
    match series.style {
        Style::Line => {
            let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            format!("<polyline class=\"line {color}\" points=\"{}\">{title}</polyline>", path.join(" "))
        }
        Style::Dots => places
            .iter()
            .map(|(x, y)| {
                format!("<circle class=\"dot {color}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\">{title}</circle>")
            })
            .collect(),
        Style::Bars => {
            let width = if places.len() > 1 { 0.7 * (places[1].0 - places[0].0) } else { 40.0 };
            let bar = |(x, y): &(f64, f64)| {
                let height = (floor - y).max(0.0);
                let left = x - width / 2.0;
                format!(
                    "<rect class=\"bar {color}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">{title}</rect>"
                )
            };
            places.iter().map(bar).collect()
        }
    }
}

/// Charts side by side as one image that needs no page, for a README: titles above, names of the series beneath.
pub fn picture(charts: &[Chart]) -> String {
    const HEAD: f64 = 26.0;
    let legend = charts.first().map_or(&[][..], |chart| &chart.series);
    let (width, height) = (WIDTH * charts.len() as f64, HEAD + HEIGHT + 24.0);
    let mut body = String::new();
    for (place, chart) in charts.iter().enumerate() {
        let left = WIDTH * place as f64;
        let middle = left + f64::midpoint(LEFT, WIDTH - RIGHT);
        body += &format!(
            "<text class=\"title\" x=\"{middle}\" y=\"17\" text-anchor=\"middle\">{}</text>",
            escape(&chart.title)
        );
        body += &format!(
            "<g transform=\"translate({left} {HEAD})\">{}</g>",
            chart.to_svg().replacen("<svg ", &format!("<svg width=\"{WIDTH}\" height=\"{HEIGHT}\" "), 1)
        );
    }
    let step = (width - LEFT) / legend.len().max(1) as f64;
    for (place, series) in legend.iter().enumerate() {
        let x = LEFT + step * place as f64;
        let y = HEAD + HEIGHT + 10.0;
        body += &format!(
            "<circle class=\"dot c{}\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"5\"/>",
            series.color % 16,
            y - 4.0
        );
        body += &format!("<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>", x + 10.0, escape(&series.name));
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\"><style>{}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>{body}</svg>\n",
        picture_style()
    )
}

/// The part of the page's style that drawings need, in its light colours: an image has no page to follow.
fn picture_style() -> String {
    let drawing = |line: &&str| {
        let line = line.trim_start();
        line.starts_with(":root")
            || line.starts_with("--c")
            || line.starts_with(".line")
            || line.starts_with(".axis")
    };
    let rules: String = STYLE.lines().filter(drawing).collect();
    format!(
        "{rules} text {{ fill: var(--soft); font-size: 11px; }} .title {{ fill: var(--ink); font-size: 13px; font-weight: bold; }}"
    )
}

struct Axis {
    low: f64,
    high: f64,
    most: f64,
    logarithmic: bool,
    ends: (f64, f64),
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, logarithmic: bool, ends: (f64, f64)) -> Self {
        let scaled = values.map(|value| if logarithmic { value.log10() } else { value });
        let (low, high) = scaled
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let margin = if high > low { 0.05 * (high - low) } else { 0.5 };
        Self { low: low - margin, high: high + margin, most: high, logarithmic, ends }
    }

    fn place(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.log10() } else { value };
        self.ends.0 + (value - self.low) / (self.high - self.low) * (self.ends.1 - self.ends.0)
    }

    /// Round numbers, about five of them.
    fn ticks(&self) -> Vec<f64> {
        let raw = (self.high - self.low) / 5.0;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|step| *step >= raw)
            .unwrap_or(raw);
        let (first, last) = ((self.low / step).ceil() as i64, (self.high / step).floor() as i64);
        let tick = |at: i64| at as f64 * step;
        (first..=last).map(|at| if self.logarithmic { 10f64.powf(tick(at)) } else { tick(at) }).collect()
    }
}

fn label(value: f64) -> String {
    let size = value.abs();
    if size >= 1e5 || (size > 0.0 && size < 1e-3) {
        return format!("{value:.0e}");
    }
    let decimals = if size >= 100.0 {
        0
    } else if size >= 10.0 {
        1
    } else {
        3
    };
    let text = format!("{value:.decimals$}");
    let trimmed = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if trimmed == "-0" { "0".into() } else { trimmed.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_holds_its_series_and_escapes_names() {
        let series = |style| Series {
            name: "a<b".into(),
            points: vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN)],
            style,
            color: 1,
        };
        for style in [Style::Line, Style::Dots, Style::Bars] {
            let chart = Chart {
                id: "x".into(),
                title: "t".into(),
                series: vec![series(style)],
                legend: true,
                ..Chart::default()
            };
            let html = chart.to_html();
            assert!(html.contains("<svg") && html.contains("a&lt;b") && !html.contains("NaN"), "{html}");
        }
        assert_eq!(Chart::default().to_html(), "");
    }

    #[test]
    fn ticks_are_round() {
        let axis = Axis::new([0.0, 1.0].into_iter(), false, (0.0, 100.0));
        assert_eq!(axis.ticks().into_iter().map(label).collect::<Vec<_>>(), ["0", "0.5", "1"]);
        let axis = Axis::new([10.0, 10_000.0].into_iter(), true, (0.0, 100.0));
        assert_eq!(axis.ticks().into_iter().map(label).collect::<Vec<_>>(), ["10", "100", "1000", "10000"]);
    }
}
