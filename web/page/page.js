// The page: an editor for a module, and what the checker and the lowerings say about it.
import { EditorState, StateEffect, StateField, Compartment, Annotation } from "@codemirror/state";
import {
  Decoration, EditorView, WidgetType, drawSelection, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars,
  keymap, lineNumbers,
} from "@codemirror/view";
import { defaultKeymap, history, historyKeymap, indentLess, indentMore } from "@codemirror/commands";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, nextDiagnostic, setDiagnostics } from "@codemirror/lint";
import { search, searchKeymap } from "@codemirror/search";
import { tags } from "@lezer/highlight";
import { assembly } from "./spirv.js";

const byId = (id) => document.getElementById(id);

/** Milliseconds after which a request is given up: its worker is ended, and a new one takes its place. */
const PATIENCE = 30_000;

/** A larger file is no shader. */
const LARGEST = 64 * 1024 * 1024;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

// ---------------------------------------------------------------------------- the worker

function fromBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function unpacked(id) {
  const packed = new Blob([fromBase64(byId(id).textContent.trim())]).stream();
  return new Response(packed.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** One worker, with one request at a time: what waits is ordered. */
class Coop {
  constructor(wasm) {
    this.wasm = wasm;
    this.source = URL.createObjectURL(new Blob([byId("worker-source").textContent], { type: "text/javascript" }));
    this.waiting = [];
    this.start();
  }

  start() {
    this.busy = null;
    this.worker = new Worker(this.source);
    this.worker.postMessage({ wasm: this.wasm });
    this.worker.onmessage = ({ data }) => this.done(data);
    this.worker.onerror = (event) => this.done({ trapped: event.message || "the worker stopped" });
  }

  /** Asks for an answer about a file; of requests of one kind only the last is kept waiting. */
  ask(request, file, kind) {
    if (kind) this.forget(kind);
    return new Promise((resolve) => {
      this.waiting.push({ request, file, kind, resolve });
      this.next();
    });
  }

  forget(kind) {
    this.waiting = this.waiting.filter((one) => one.kind !== kind || one.resolve({ outdated: true }));
  }

  next() {
    if (this.busy || this.waiting.length === 0) return;
    this.busy = this.waiting.shift();
    this.timer = setTimeout(() => {
      this.worker.terminate();
      const { resolve } = this.busy;
      this.start();
      resolve({ trapped: `no answer after ${PATIENCE / 1000} seconds` });
      this.next();
    }, PATIENCE);
    this.worker.postMessage({ request: this.busy.request, file: this.busy.file });
  }

  done(answer) {
    clearTimeout(this.timer);
    const { resolve } = this.busy ?? {};
    this.busy = null;
    resolve?.(answer);
    this.next();
  }
}

// ---------------------------------------------------------------------------- editors

const colours = HighlightStyle.define([
  { tag: tags.keyword, class: "t-op" },
  { tag: tags.comment, class: "t-comment" },
  { tag: tags.string, class: "t-string" },
  { tag: tags.number, class: "t-number" },
  { tag: tags.typeName, class: "t-word" },
  { tag: tags.definition(tags.variableName), class: "t-result" },
  { tag: tags.variableName, class: "t-id" },
]);

const common = [
  lineNumbers(), highlightSpecialChars(), drawSelection(), search({ top: true }), assembly, syntaxHighlighting(colours),
];

/** The message under the line of a finding. */
class Message extends WidgetType {
  constructor(finding, indent) {
    super();
    this.finding = finding;
    this.indent = indent;
  }

  eq(other) {
    return this.finding === other.finding;
  }

  toDOM() {
    const { finding } = this;
    return element("div", { class: `said ${finding.level}`, style: `margin-left: ${this.indent}ch` },
      element("b", {}, finding.rule ?? "not readable"), ` ${finding.message}`);
  }
}

const setMessages = StateEffect.define();
const messages = StateField.define({
  create: () => Decoration.none,
  update(set, transaction) {
    set = set.map(transaction.changes);
    for (const effect of transaction.effects) if (effect.is(setMessages)) set = effect.value;
    return set;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** The last words of a long list on a line. */
const MOST_MESSAGES = 300;

function messagesOf(doc, findings) {
  const all = [];
  for (const finding of findings.slice(0, MOST_MESSAGES)) {
    if (finding.place?.from == null) continue;
    const line = doc.lineAt(Math.min(finding.place.from, doc.length));
    const indent = Math.min(line.text.search(/\S|$/), 40);
    all.push(Decoration.widget({ widget: new Message(finding, indent), block: true, side: 1 }).range(line.to));
  }
  return Decoration.set(all, true);
}

/** Marks changes of the text that are not the user's. */
const loaded = Annotation.define();

const state = { bytes: null, name: "module.spvasm", edited: false, spec: {}, constants: "", findings: [] };
let coop;

const source = new EditorView({
  parent: byId("source"),
  state: EditorState.create({
    extensions: [
      ...common, history(), highlightActiveLine(), highlightActiveLineGutter(), lintGutter(), messages,
      keymap.of([
        { key: "F8", run: nextDiagnostic },
        { key: "Mod-o", run: () => (byId("file").click(), true) },
        { key: "Mod-]", run: indentMore }, { key: "Mod-[", run: indentLess },
        ...searchKeymap, ...defaultKeymap, ...historyKeymap,
      ]),
      EditorView.contentAttributes.of({ "aria-label": "SPIR-V assembly", spellcheck: "false" }),
      EditorView.updateListener.of((update) => {
        if (!update.docChanged || update.transactions.some((t) => t.annotation(loaded))) return;
        state.bytes = null;
        if (!state.edited) byId("name").textContent = `${state.name}, edited`;
        state.edited = true;
        later();
      }),
    ],
  }),
});

const readonly = new Compartment();
const output = new EditorView({
  parent: byId("output"),
  state: EditorState.create({
    extensions: [
      ...common, readonly.of(EditorState.readOnly.of(true)), keymap.of([...searchKeymap, ...defaultKeymap]),
      EditorView.contentAttributes.of({ "aria-label": "Lowered assembly" }),
    ],
  }),
});

function replace(view, text, effects = []) {
  view.dispatch({
    changes: { from: 0, to: view.state.doc.length, insert: text },
    selection: { anchor: 0 },
    effects: [EditorView.scrollIntoView(0), ...effects],
    annotations: loaded.of(true),
  });
}

// ---------------------------------------------------------------------------- requests

function file() {
  return state.bytes ?? new TextEncoder().encode(source.state.doc.toString());
}

function request(what, more = {}) {
  const subgroup = byId("subgroup").value.trim();
  return { what, spec: state.spec, ...(subgroup && { subgroup_size: subgroup }), ...more };
}

let timer;
function later() {
  clearTimeout(timer);
  timer = setTimeout(check, 150);
}

function say(text, level = "") {
  byId("status").textContent = text;
  byId("status").className = level;
}

const trappedText = (why) => `This is a bug of the checker, which starts anew with the next request; please report it with the module: ${why}`;

/** Checks what is in the editor, and what the visible results say of it. */
async function check() {
  clearTimeout(timer);
  const begun = performance.now();
  coop.forget("row");
  const device = byId("for-device").checked ? byId("device").value : null;
  const answer = await coop.ask(request("check", { device }), file(), "check");
  if (answer.outdated) return;
  showCheck(answer);
  const total = performance.now() - begun;
  document.body.dataset.check = answer.milliseconds ?? "";
  document.body.dataset.total = total;
  document.body.dataset.checks = Number(document.body.dataset.checks ?? 0) + 1;
  results();
}

function showCheck({ result, trapped, milliseconds }) {
  const problems = trapped ? [{ message: trappedText(trapped) }] : result.problems;
  if (problems) {
    state.findings = problems.map((problem) => ({ level: "error", message: problem.message, place: problem, labels: [] }));
    byId("facts").textContent = "";
    say(trapped ? "stopped" : "not readable", "error");
  } else {
    if (result.text != null && result.text !== source.state.doc.toString()) replace(source, result.text);
    state.findings = result.findings;
    const count = (level) => result.findings.filter((f) => f.level === level).length;
    const [errors, warnings] = [count("error"), count("warning")];
    const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
    byId("facts").textContent = `${plural(result.instructions, "instruction")}, ${result.entries.join(", ") || "no entry point"}`;
    const took = `checked in ${milliseconds.toFixed(1)} ms`;
    if (errors + warnings > 0) say(`${plural(errors, "error")}, ${plural(warnings, "warning")}; ${took}`, errors ? "error" : "warning");
    else say(result.matrices ? `nothing wrong; ${took}` : `no cooperative matrices; ${took}`, "fine");
    showConstants(result.constants);
  }
  mark();
  showFindings(result, trapped);
}

function mark() {
  const doc = source.state.doc;
  const within = (at) => Math.max(0, Math.min(at, doc.length));
  const diagnostics = state.findings.filter((f) => f.place?.from != null).map((finding) => {
    const main = finding.labels.find((label) => label.main && label.from != null) ?? finding.place;
    return {
      from: within(main.from), to: within(main.to), severity: finding.level === "note" ? "info" : finding.level,
      message: finding.help ? `${finding.message}\n${finding.help}` : finding.message, source: finding.rule,
    };
  });
  source.dispatch(setDiagnostics(source.state, diagnostics.sort((a, b) => a.from - b.from)));
  source.dispatch({ effects: setMessages.of(messagesOf(doc, state.findings)) });
}

function jump(place) {
  const at = Math.min(place.from, source.state.doc.length);
  const to = Math.min(place.to, source.state.doc.length);
  source.dispatch({ selection: { anchor: at, head: to }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
  source.focus();
}

function placeButton(place) {
  if (place?.from == null) return null;
  const button = element("button", { type: "button", class: "place" }, `line ${place.line}`);
  button.onclick = () => jump(place);
  return button;
}

function showFindings(result, trapped) {
  const list = state.findings.map((finding) => {
    const others = finding.labels.filter((label) => label.text !== "here").map((label) =>
      element("li", {}, placeButton(label), ` ${label.text}`));
    return element("li", { class: `finding ${finding.level}` },
      element("div", { class: "head" }, element("span", { class: "level" }, finding.level), placeButton(finding.place),
        finding.rule ? element("code", { title: finding.summary }, finding.rule) : null),
      element("p", {}, finding.message),
      others.length ? element("ul", {}, ...others) : null,
      finding.help ? element("p", { class: "help" }, finding.help) : null);
  });
  const more = Object.entries(result?.omitted ?? {}).map(([rule, n]) => element("p", {}, `and ${n} more of ${rule}`));
  const none = trapped || list.length ? null : element("p", { class: "none" },
    result.matrices ? "Every rule holds." : "The module has no cooperative matrices.");
  byId("findings").replaceChildren(...[list.length ? element("ul", { class: "findings" }, ...list) : none, ...more].filter(Boolean));
  const tab = byId("tab-findings");
  tab.textContent = list.length ? `Findings (${list.length})` : "Findings";
}

function showConstants(constants) {
  const form = byId("constants");
  const shape = JSON.stringify(constants);
  if (shape === state.constants) return;
  state.constants = shape;
  form.hidden = constants.length === 0;
  form.replaceChildren(...constants.map((constant) => {
    const input = element("input", {
      size: 8, placeholder: constant.default ?? "", value: state.spec[constant.id] ?? "", "data-spec": constant.id,
      title: `SpecId ${constant.id}, ${constant.type}`,
    });
    input.oninput = () => {
      state.spec[constant.id] = input.value;
      later();
    };
    return element("label", {}, `${constant.name ?? `constant ${constant.id}`} `, input);
  }));
}

/** Fills what is visible beside the findings. */
function results() {
  const shown = document.querySelector("[role=tab][aria-selected=true]").id;
  if (shown === "tab-lowered") lower();
  if (shown === "tab-devices") table();
}

// ---------------------------------------------------------------------------- lowering

async function lower() {
  const device = byId("device").value;
  const answer = await coop.ask(request("lower", { device, target: byId("target").value }), file(), "lower");
  if (answer.outdated) return;
  const { result, trapped, spirv, milliseconds } = answer;
  const lines = outcome(result, trapped, device);
  if (result?.text != null) {
    const save = element("button", { type: "button" }, "Save as .spv");
    save.onclick = () => download(spirv, state.name.replace(/\.\w+$/, "") + `.${result.target}.spv`);
    lines.push(element("p", {}, `${result.words.before} words became ${result.words.after} in ${milliseconds.toFixed(0)} ms. `, save));
  }
  byId("outcome").replaceChildren(...lines);
  replace(output, result?.text ?? "");
  byId("output").hidden = result?.text == null;
  document.body.dataset.lowered = Number(document.body.dataset.lowered ?? 0) + 1;
}

function outcome(result, trapped, device) {
  if (trapped) return [element("p", { class: "verdict error" }, trappedText(trapped))];
  if (result.problems) return result.problems.map((p) => element("p", { class: "verdict error" }, p.message));
  const list = (title, all) => all?.length ? element("details", { open: all.length < 4 }, element("summary", {}, title),
    element("ul", {}, ...all.map((one) => element("li", {}, one)))) : null;
  const parts = {
    native: () => [element("p", { class: "verdict fine" }, result.matrices
      ? `${device} runs the module as it is.` : "There is nothing to lower: the module has no cooperative matrices.")],
    lowered: () => [
      element("p", { class: "verdict fine" }, `Lowered to ${result.target} for ${device}. ${needs(result.needs)}`),
      list("Why not as it is", result.because), list("Why not otherwise", result.not_taken),
      list("Assumptions", result.warnings), list("Differences from bit-exact results", result.approximations),
    ],
    refused: () => [
      element("p", { class: "verdict error" }, `${result.message} `, element("code", {}, result.rule)),
      element("p", { class: "help" }, result.remedy), list("Findings", result.findings), list("What was tried", result.not_taken),
    ],
  };
  return parts[result.outcome]().filter(Boolean);
}

function needs({ subgroup_size, full_subgroups, shared_memory, capabilities, extensions }, nothing = "The pipeline needs nothing more.") {
  const all = [];
  if (subgroup_size) all.push(`subgroups of ${subgroup_size}${full_subgroups ? ", full" : ""}`);
  else if (full_subgroups) all.push("full subgroups");
  if (shared_memory) all.push(`${shared_memory} bytes of shared memory`);
  if (capabilities.length) all.push(`capabilities ${capabilities.join(", ")}`);
  if (extensions.length) all.push(extensions.join(", "));
  return all.length ? `The pipeline needs ${all.join("; ")}.` : nothing;
}

function download(bytes, name) {
  const link = element("a", { href: URL.createObjectURL(new Blob([bytes])), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// ---------------------------------------------------------------------------- devices

let devices = [];

async function table() {
  const rows = devices.map((device) => element("tr", { "data-device": device.name },
    element("th", { scope: "row", title: `${device.driver}; ${device.origin}` }, device.name, element("small", {}, device.device)),
    element("td", { class: "runs" }, "…"), element("td", {})));
  byId("rows").replaceChildren(...rows);
  coop.forget("row");
  const input = file();
  // Each row's request waits by itself, so that a change of the module has not to wait for all of them.
  await Promise.all(devices.map(async (device, i) => {
    const asked = { request: request("row", { device: device.name, target: "auto" }), file: input };
    const answer = await new Promise((resolve) => {
      coop.waiting.push({ ...asked, kind: "row", resolve });
      coop.next();
    });
    if (!answer.outdated) fillRow(rows[i], answer);
  }));
  document.body.dataset.tables = Number(document.body.dataset.tables ?? 0) + 1;
}

function fillRow(row, { result, trapped }) {
  const [, runs, why] = row.children;
  if (trapped || result.problems) {
    runs.textContent = "not readable";
    why.textContent = trapped ? trappedText(trapped) : result.problems[0].message;
    row.className = "error";
    return;
  }
  row.className = { native: "fine", lowered: "warning", refused: "error" }[result.outcome];
  runs.textContent = { native: "as it is", lowered: `lowered to ${result.target}`, refused: "no" }[result.outcome];
  const text = {
    native: () => "",
    lowered: () => [result.because[0], needs(result.needs, "")].filter(Boolean).join(". "),
    refused: () => `${result.message}; ${result.remedy}`,
  };
  why.textContent = text[result.outcome]();
}

// ---------------------------------------------------------------------------- files, tabs, keys

async function open(blob, name) {
  if (blob.size > LARGEST) {
    say(`${name} has ${blob.size} bytes: more than ${LARGEST}`, "error");
    return;
  }
  load(new Uint8Array(await blob.arrayBuffer()), name);
}

/** Shows the words or the text of a file. */
function load(bytes, name, example = "") {
  byId("example").value = example;
  state.name = name;
  state.edited = false;
  state.spec = {};
  state.constants = "";
  byId("name").textContent = name;
  const magic = bytes.length >= 4 && new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  if (magic === 0x07230203 || magic === 0x03022307) {
    state.bytes = bytes;
    state.findings = [];
    replace(source, "");
  } else {
    state.bytes = null;
    // Null bytes are no text; the checker is told what they are.
    if (bytes.includes(0)) state.bytes = bytes;
    replace(source, state.bytes ? "" : new TextDecoder().decode(bytes));
  }
  check();
}

function select(tab) {
  for (const one of document.querySelectorAll("[role=tab]")) {
    const chosen = one === tab;
    one.setAttribute("aria-selected", String(chosen));
    one.tabIndex = chosen ? 0 : -1;
    byId(one.getAttribute("aria-controls")).hidden = !chosen;
  }
  results();
}

function wire() {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  tabs.forEach((tab, i) => {
    tab.onclick = () => select(tab);
    tab.onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(i + step + tabs.length) % tabs.length];
      next.focus();
      select(next);
    };
  });
  document.addEventListener("keydown", (event) => {
    const tab = event.altKey && tabs[Number(event.key) - 1];
    if (tab) {
      event.preventDefault();
      select(tab);
      tab.focus();
    }
  });
  byId("open").onclick = () => byId("file").click();
  byId("file").onchange = ({ target }) => target.files[0] && open(target.files[0], target.files[0].name);
  byId("device").onchange = check;
  byId("for-device").onchange = check;
  byId("target").onchange = results;
  byId("subgroup").oninput = later;
  byId("constants").onsubmit = (event) => event.preventDefault();
  const examples = JSON.parse(byId("examples-data").textContent);
  examples.forEach(({ title }, i) => byId("example").append(element("option", { value: i }, title)));
  byId("example").onchange = ({ target }) => {
    const example = examples[target.value];
    if (example) load(fromBase64(example.file), example.name, target.value);
  };
  addEventListener("dragover", (event) => {
    event.preventDefault();
    byId("drop").hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) byId("drop").hidden = true;
  });
  // Before the editor, which would insert the file as text.
  addEventListener("drop", (event) => {
    event.preventDefault();
    event.stopPropagation();
    byId("drop").hidden = true;
    const dropped = event.dataTransfer.files[0];
    if (dropped) open(dropped, dropped.name);
  }, true);
  return examples;
}

async function start() {
  const examples = wire();
  coop = new Coop(await unpacked("wasm"));
  const { result } = await coop.ask({ what: "devices" }, new Uint8Array());
  devices = result.devices;
  byId("version").textContent = `coop ${result.version}`;
  byId("device").append(...devices.map((device) => element("option", { value: device.name }, device.name)));
  byId("device").value = "nvidia-h100";
  load(fromBase64(examples[0].file), examples[0].name, "0");
  document.body.dataset.ready = "";
}

start().catch((error) => say(`the page does not work in this browser: ${error.message ?? error}`, "error"));
