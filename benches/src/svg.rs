//! Line charts as SVG text, the same bytes for the same values.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 60.0;
/// Colours that stay apart for most eyes (Okabe and Ito, 2008).
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
];

/// One line of a chart.
pub(crate) struct Line {
    pub(crate) name: String,
    /// Ascending in x.
    pub(crate) points: Vec<(f64, f64)>,
    /// Drawn dashed and without marks: computed, not measured.
    pub(crate) computed: bool,
}

/// A chart.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    /// Whether x is spaced by its logarithm.
    pub(crate) log_x: bool,
    pub(crate) lines: Vec<Line>,
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least `least`.
fn step(least: f64) -> f64 {
    let mut power = 10f64.powf(least.log10().floor());
    if !power.is_finite() || power <= 0.0 {
        power = 1.0;
    }
    [1.0, 2.0, 5.0, 10.0]
        .map(|n| n * power)
        .into_iter()
        .find(|s| *s >= least * (1.0 - 1e-9))
        .unwrap_or(power)
}

/// A number without needless zeros.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Chart {
    fn xs(&self) -> Vec<f64> {
        let mut xs: Vec<f64> = self
            .lines
            .iter()
            .filter(|l| !l.computed)
            .flat_map(|l| &l.points)
            .map(|p| p.0)
            .collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        xs
    }

    /// The chart as a file.
    pub(crate) fn to_svg(&self) -> String {
        let xs = self.xs();
        let top = self
            .lines
            .iter()
            .flat_map(|l| &l.points)
            .map(|p| p.1)
            .fold(0.0, f64::max);
        let dy = step((top / 6.0).max(1e-9));
        let top = dy * (top / dy).ceil().max(1.0);
        let (low, high) = match (xs.first(), xs.last()) {
            (Some(&low), Some(&high)) if high > low => (if self.log_x { low } else { 0.0 }, high),
            (Some(&only), _) => (if self.log_x { only / 2.0 } else { 0.0 }, only.max(1.0)),
            _ => (1.0, 2.0),
        };
        let spaced = |x: f64| if self.log_x { x.max(1e-9).ln() } else { x };
        let px = |x: f64| {
            LEFT + (spaced(x) - spaced(low)) / (spaced(high) - spaced(low)) * (WIDTH - LEFT - RIGHT)
        };
        let py = |y: f64| HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM);

        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n",
            escape(&self.title)
        );
        for i in 0..=(top / dy).round() as usize {
            let y = i as f64 * dy;
            let at = py(y);
            let _ = writeln!(
                out,
                "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/>\n\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                at + 4.0,
                number(y)
            );
        }
        let mut last = f64::NEG_INFINITY;
        for &x in &xs {
            let at = px(x);
            let mark = HEIGHT - BOTTOM;
            let _ = writeln!(
                out,
                "<line x1=\"{at:.1}\" y1=\"{mark}\" x2=\"{at:.1}\" y2=\"{}\" stroke=\"#000000\"/>",
                mark + 5.0
            );
            // Labels need room.
            if at - last >= 34.0 {
                let _ = writeln!(
                    out,
                    "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                    mark + 18.0,
                    number(x)
                );
                last = at;
            }
        }
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 14.0,
            escape(self.x),
            (TOP + HEIGHT - BOTTOM) / 2.0,
            escape(self.y)
        );
        for (i, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let points: Vec<String> = line
                .points
                .iter()
                .map(|p| format!("{:.1},{:.1}", px(p.0), py(p.1)))
                .collect();
            let dashes = if line.computed {
                " stroke-dasharray=\"6 4\""
            } else {
                ""
            };
            let _ = writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>",
                points.join(" ")
            );
            for p in line.points.iter().filter(|_| !line.computed) {
                let _ = writeln!(
                    out,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{colour}\"/>",
                    px(p.0),
                    py(p.1)
                );
            }
            let y = TOP + 8.0 + 18.0 * i as f64;
            let _ = writeln!(
                out,
                "<line x1=\"{0}\" y1=\"{y}\" x2=\"{1}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>\n\
                 <text x=\"{2}\" y=\"{3}\">{4}</text>",
                LEFT + 12.0,
                LEFT + 40.0,
                LEFT + 46.0,
                y + 4.0,
                escape(&line.name)
            );
        }
        out.push_str("</svg>\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        for (least, s) in [
            (1.0, 1.0),
            (1.1, 2.0),
            (3.0, 5.0),
            (6.0, 10.0),
            (0.03, 0.05),
            (70.0, 100.0),
        ] {
            assert!((step(least) - s).abs() < 1e-9 * s, "{least}");
        }
        assert_eq!(
            (number(2.50), number(3.0), number(0.25)),
            ("2.5".into(), "3".into(), "0.25".into())
        );
    }

    #[test]
    fn a_chart_holds_its_points_within_its_frame() {
        let line = |name: &str, computed| Line {
            name: name.into(),
            points: vec![(16.0, 1.0), (4096.0, 7.0)],
            computed,
        };
        for log_x in [false, true] {
            let chart = Chart {
                title: "a < b".into(),
                x: "x",
                y: "y",
                log_x,
                lines: vec![line("one", false), line("two", true)],
            };
            let svg = chart.to_svg();
            assert_eq!(svg.matches("<polyline").count(), 2);
            assert_eq!(svg.matches("<circle").count(), 2);
            assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>\n"));
            for part in svg.split("cx=\"").skip(1) {
                let x: f64 = part.split('"').next().unwrap().parse().unwrap();
                assert!((LEFT..=WIDTH - RIGHT).contains(&x), "{x}");
            }
        }
        let none = Chart {
            title: String::new(),
            x: "x",
            y: "y",
            log_x: true,
            lines: vec![],
        };
        assert!(!none.to_svg().contains("NaN"));
    }
}
