//! A small writer of SVG: shapes and text of one font, one below the other.

use std::fmt::{Display, Write};

/// The font of all text.
const FONT: &str = "DejaVu Sans Mono, Menlo, Consolas, monospace";

/// The width of a character of that font, for a size of 1.
pub(crate) const CHARACTER: f64 = 0.602;

/// A drawing.
#[derive(Debug, Default)]
pub(crate) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// The horizontal position of text relative to its point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Anchor {
    /// The text begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// A rectangle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Rectangle {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// Returns text without the characters that mean something in XML.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

impl Svg {
    fn line(&mut self, line: impl Display) {
        let _ = writeln!(self.body, "{line}");
    }

    fn cover(&mut self, x: f64, y: f64) {
        (self.width, self.height) = (self.width.max(x), self.height.max(y));
    }

    /// Draws a filled rectangle with a frame; `hint` is shown where one points at it.
    pub(crate) fn rectangle(&mut self, at: Rectangle, fill: &str, stroke: &str, hint: &str) {
        let Rectangle { x, y, width, height } = at;
        self.cover(x + width, y + height);
        let title = if hint.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(hint)) };
        self.line(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\" stroke=\"{stroke}\">{title}</rect>"
        ));
    }

    /// Draws a line of text of a size above a point; returns its width.
    pub(crate) fn text(&mut self, (x, y): (f64, f64), size: f64, anchor: Anchor, color: &str, text: &str) -> f64 {
        let width = size * CHARACTER * text.chars().count() as f64;
        let (name, right) = match anchor {
            Anchor::Start => ("start", x + width),
            Anchor::Middle => ("middle", x + width / 2.0),
            Anchor::End => ("end", x),
        };
        self.cover(right, y + size / 3.0);
        self.line(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{name}\" fill=\"{color}\" xml:space=\"preserve\">{}</text>",
            escaped(text)
        ));
        width
    }

    /// Draws a path with an arrow at its end.
    pub(crate) fn arrow(&mut self, points: &[(f64, f64)], color: &str, dashed: bool) {
        let mut path = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            self.cover(*x, *y);
            let _ = write!(path, "{}{x:.1} {y:.1} ", if at == 0 { 'M' } else { 'L' });
        }
        let dash = if dashed { " stroke-dasharray=\"5 3\"" } else { "" };
        self.line(format_args!(
            "<path d=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.4\" stroke-linejoin=\"round\"{dash} marker-end=\"url(#arrow)\"/>",
            path.trim_end()
        ));
    }

    /// Returns the document, with a margin around all that was drawn.
    pub(crate) fn finish(self) -> String {
        const MARGIN: f64 = 16.0;
        let (width, height) = ((self.width + MARGIN).ceil(), (self.height + MARGIN).ceil());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"{FONT}\">\n\
             <defs><marker id=\"arrow\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
             <path d=\"M0 0 L10 5 L0 10 z\" fill=\"#444444\"/></marker></defs>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.body
        )
    }
}

/// Returns a color for a number: neighbors have colors that differ.
pub(crate) fn color(number: u32) -> String {
    // The golden angle, so that any run of numbers is spread over the circle.
    let hue = (f64::from(number) * 137.508) % 360.0;
    let (saturation, lightness) = (0.62, [0.80, 0.72, 0.86][number as usize % 3]);
    let part = |n: f64| {
        let k = (n + hue / 30.0) % 12.0;
        let amplitude = saturation * f64::min(lightness, 1.0 - lightness);
        ((lightness - amplitude * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0)) * 255.0).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", part(0.0), part(8.0), part(4.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_of_neighbors_differ() {
        let all: std::collections::BTreeSet<String> = (0..128).map(color).collect();
        assert!(all.len() > 120, "{}", all.len());
        assert!(all.iter().all(|c| c.len() == 7 && c.starts_with('#')));
    }

    #[test]
    fn text_is_text() {
        let mut svg = Svg::default();
        svg.text((1.0, 10.0), 10.0, Anchor::Start, "#000000", "a<b & \"c\"\u{1b}");
        let document = svg.finish();
        assert!(document.contains(">a&lt;b &amp; &quot;c&quot;\u{fffd}</text>"), "{document}");
    }
}
