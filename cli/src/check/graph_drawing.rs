//! Draws graphs of control flow: blocks in layers from the entry down, branches between them, loops at the right.

use super::graph::{Edge, FunctionGraph, Graph, LEGEND, Line, Node, fill};
use crate::svg::{Anchor, CHARACTER, Rectangle, Svg};

const INK: &str = "#222222";
const GRAY: &str = "#666666";
const RED: &str = "#b00020";
const LINE: &str = "#444444";

/// The size of text in blocks, the height of its lines, and what is around it.
const SIZE: f64 = 10.0;
const LINE_HEIGHT: f64 = 14.0;
const PADDING: f64 = 8.0;
/// The room between layers and between blocks of one.
const BETWEEN_LAYERS: f64 = 44.0;
const BETWEEN_BLOCKS: f64 = 32.0;
/// The room for each branch that leads back.
const LANE: f64 = 14.0;

/// Returns the drawing of a graph.
pub(super) fn drawing(graph: &Graph) -> String {
    let mut svg = Svg::default();
    svg.text((16.0, 30.0), 16.0, Anchor::Start, INK, &graph.title);
    let mut top = 52.0;
    for (scope, name, meaning) in LEGEND {
        let at = Rectangle { x: 16.0, y: top - 11.0, width: 90.0, height: 16.0 };
        svg.rectangle(at, fill(scope), GRAY, "");
        svg.text((61.0, top + 1.0), SIZE, Anchor::Middle, INK, name);
        svg.text((116.0, top + 1.0), SIZE, Anchor::Start, GRAY, meaning);
        top += 20.0;
    }
    svg.text(
        (16.0, top + 1.0),
        SIZE,
        Anchor::Start,
        RED,
        "! must be executed together, or with the same operand, and may not be",
    );
    top += 18.0;
    for note in &graph.notes {
        svg.text((16.0, top + 1.0), SIZE, Anchor::Start, GRAY, note);
        top += 16.0;
    }
    for function in &graph.functions {
        svg.text((16.0, top + 26.0), 13.0, Anchor::Start, INK, &format!("function {}", function.name));
        top = Layout::new(function).draw(&mut svg, function, (16.0, top + 42.0)) + 12.0;
    }
    svg.finish()
}

/// An item of a layer: a block, or a branch that passes by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Item {
    Block(usize),
    /// Of the edge with that number.
    Passing(usize),
}

/// The line along which a branch passes a layer: its number, x, and y at both ends.
type Passing = (usize, f64, f64, f64);

/// The places of a function's blocks.
struct Layout {
    layers: Vec<Vec<Item>>,
    sizes: Vec<(f64, f64)>,
}

fn size(node: &Node) -> (f64, f64) {
    let characters = |text: &str, more: usize| (text.chars().count() + more) as f64 * SIZE * CHARACTER;
    let lines = node.lines.iter().map(|line| characters(&line.text, 5));
    let width = lines.chain([characters(&node.title, 1)]).fold(60.0, f64::max);
    (width + 2.0 * PADDING, (node.lines.len() + 1) as f64 * LINE_HEIGHT + 2.0 * PADDING - 4.0)
}

impl Layout {
    fn new(function: &FunctionGraph) -> Layout {
        let count = function.nodes.len();
        let mut layer: Vec<usize> = vec![0; count];
        let forward = function.edges.iter().filter(|e| !e.back).map(|e| (e.from, e.to));
        let below: Vec<(usize, usize)> = forward.chain(function.behind.iter().copied()).collect();
        // What is behind a loop may come before its end in the order of blocks. More rounds than blocks there are only where
        // loops are not nested.
        for _ in 0..count {
            let before = layer.clone();
            for (from, to) in below.iter().filter(|(from, to)| from != to) {
                layer[*to] = layer[*to].max(layer[*from] + 1).min(count);
            }
            if layer == before {
                break;
            }
        }
        let depth = layer.iter().max().map_or(0, |last| last + 1);
        let mut layers: Vec<Vec<Item>> = vec![Vec::new(); depth];
        (0..count).for_each(|block| layers[layer[block]].push(Item::Block(block)));
        for (number, edge) in function.edges.iter().enumerate().filter(|(_, e)| !e.back) {
            let between = layer[edge.from] + 1..layer[edge.to];
            layers.get_mut(between).into_iter().flatten().for_each(|l| l.push(Item::Passing(number)));
        }
        let mut layout = Layout { layers, sizes: function.nodes.iter().map(size).collect() };
        layout.order(&function.edges);
        layout
    }

    /// Orders each layer by where what leads to it stands.
    fn order(&mut self, edges: &[Edge]) {
        for at in 1..self.layers.len() {
            let (above, below) = self.layers.split_at_mut(at);
            let above = &above[at - 1];
            let place = |item: Item| above.iter().position(|other| *other == item);
            let mean = |item: &Item| {
                let from = |number: usize| {
                    let edge = &edges[number];
                    place(Item::Passing(number)).or_else(|| place(Item::Block(edge.from)))
                };
                let places: Vec<usize> = match *item {
                    Item::Passing(number) => from(number).into_iter().collect(),
                    Item::Block(block) => {
                        (0..edges.len()).filter(|n| edges[*n].to == block && !edges[*n].back).filter_map(from).collect()
                    }
                };
                places.iter().sum::<usize>() as f64 / places.len().max(1) as f64
            };
            below[0].sort_by(|a, b| mean(a).total_cmp(&mean(b)));
        }
    }

    fn width(&self, item: Item) -> f64 {
        match item {
            Item::Block(block) => self.sizes[block].0,
            Item::Passing(_) => 10.0,
        }
    }

    /// Returns the place of each block, and the points at which branches pass layers.
    fn places(&self, (left, top): (f64, f64)) -> (Vec<Rectangle>, Vec<Passing>) {
        let widths = |items: &[Item]| {
            items.iter().map(|item| self.width(*item)).sum::<f64>()
                + BETWEEN_BLOCKS * items.len().saturating_sub(1) as f64
        };
        let widest = self.layers.iter().map(|items| widths(items)).fold(0.0, f64::max);
        let mut places = vec![Rectangle { x: 0.0, y: 0.0, width: 0.0, height: 0.0 }; self.sizes.len()];
        let mut passing = Vec::new();
        let mut y = top;
        for items in &self.layers {
            let mut x = left + (widest - widths(items)) / 2.0;
            let heights = items.iter().map(|item| match item {
                Item::Block(block) => self.sizes[*block].1,
                Item::Passing(_) => 0.0,
            });
            let height = heights.fold(0.0, f64::max);
            for item in items {
                match *item {
                    Item::Block(block) => {
                        let (width, height) = self.sizes[block];
                        places[block] = Rectangle { x, y, width, height };
                    }
                    Item::Passing(number) => passing.push((number, x + 5.0, y, y + height)),
                }
                x += self.width(*item) + BETWEEN_BLOCKS;
            }
            y += height + BETWEEN_LAYERS;
        }
        (places, passing)
    }

    /// Draws a function; returns where it ends.
    fn draw(&self, svg: &mut Svg, function: &FunctionGraph, at: (f64, f64)) -> f64 {
        let (places, passing) = self.places(at);
        let right = places.iter().map(|p| p.x + p.width).chain(passing.iter().map(|p| p.1)).fold(0.0, f64::max);
        let mut lanes = 0.0;
        for (number, edge) in function.edges.iter().enumerate() {
            let (from, to) = (places[edge.from], places[edge.to]);
            if edge.back {
                lanes += 1.0;
                let x = right + lanes * LANE;
                let (y, end) = (from.y + from.height - 10.0, to.y + 10.0);
                let points = [(from.x + from.width, y), (x, y), (x, end), (to.x + to.width, end)];
                svg.arrow(&points, LINE, true);
                continue;
            }
            // Several that leave or reach a block stand beside each other.
            let share = |all: Vec<usize>, rectangle: Rectangle| {
                let place = all.iter().position(|n| *n == number).unwrap_or(0);
                rectangle.x + rectangle.width * (place + 1) as f64 / (all.len() + 1) as f64
            };
            let forward = |is: &dyn Fn(&Edge) -> bool| -> Vec<usize> {
                (0..function.edges.len()).filter(|n| !function.edges[*n].back && is(&function.edges[*n])).collect()
            };
            let mut leaving = forward(&|e| e.from == edge.from);
            leaving.sort_by(|a, b| {
                let x = |n: &usize| passing.iter().find(|p| p.0 == *n).map_or(places[function.edges[*n].to].x, |p| p.1);
                x(a).total_cmp(&x(b))
            });
            let mut reaching = forward(&|e| e.to == edge.to);
            reaching.sort_by(|a, b| {
                let x = |n: &usize| {
                    passing.iter().rev().find(|p| p.0 == *n).map_or(places[function.edges[*n].from].x, |p| p.1)
                };
                x(a).total_cmp(&x(b))
            });
            let start = (share(leaving, from), from.y + from.height);
            let mut points = vec![start];
            for (_, x, y, end) in passing.iter().filter(|p| p.0 == number) {
                points.extend([(*x, *y), (*x, *end)]);
            }
            points.push((share(reaching, to), to.y));
            svg.arrow(&points, LINE, false);
            if !edge.label.is_empty() {
                // Beside the line, on the side from which it leads away.
                let to_left = points.get(1).is_some_and(|next| next.0 < start.0);
                let (x, anchor) = if to_left { (start.0 + 5.0, Anchor::Start) } else { (start.0 - 5.0, Anchor::End) };
                svg.text((x, start.1 + 13.0), 9.0, anchor, GRAY, &edge.label);
            }
        }
        for (node, place) in function.nodes.iter().zip(&places) {
            block(svg, node, *place);
        }
        places.iter().map(|p| p.y + p.height).fold(at.1, f64::max)
    }
}

fn block(svg: &mut Svg, node: &Node, place: Rectangle) {
    svg.rectangle(place, fill(node.scope), GRAY, &format!("executed together by each {}", node.scope));
    let mut y = place.y + PADDING + 9.0;
    svg.text((place.x + PADDING, y), SIZE, Anchor::Start, INK, &node.title);
    for line in &node.lines {
        y += LINE_HEIGHT;
        if let Some(scope) = line.scope {
            let mark = Rectangle { x: place.x + PADDING, y: y - 8.0, width: 9.0, height: 9.0 };
            svg.rectangle(mark, fill(scope), GRAY, &format!("the same in each {scope}"));
        }
        let (color, mark) = match line {
            Line { wrong: true, .. } => (RED, "! "),
            Line { other: true, .. } => (GRAY, ""),
            _ => (INK, ""),
        };
        let x = place.x + PADDING + 15.0;
        svg.text((x, y), SIZE, Anchor::Start, color, &format!("{mark}{}", line.text));
    }
}
