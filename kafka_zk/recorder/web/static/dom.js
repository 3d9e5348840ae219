// Elements from data. Text is never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

// Characters that change the direction of text or are invisible are escaped, so that no name looks like another one.
const UNSEEN = /[\p{Default_Ignorable_Code_Point}\u2028\u2029\u2800]/gu;
const READ = new Set(["title", "aria-label"]);
const visible = (text) => (typeof text === "string" ? text.replace(UNSEEN, writtenOut) : text);
function writtenOut(character) {
  const code = character.codePointAt(0).toString(16);
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, READ.has(name) ? visible(value) : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined).map(visible));
  return element;
}

export const html = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, name), attributes, children);

// Okabe and Ito's colours and two more, which colour-blind readers can distinguish (tests/kafka_zk/recorder/web/test_palette.py); a name
// stands beside every colour.
const COLOURS = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00", "#8c64f0", "#b2df8a"];
const OF_ZOOKEEPER = "#8a8f98";
const order = new Map(); // of the first appearance of members in the recording, so that a reload changes no colour

export function knowNames(names) {
  names.forEach((name, index) => order.set(name, index));
}

// For names that are not in the recording.
export const paletteColour = (index) => COLOURS[index % COLOURS.length];

export function colour(name) {
  const broker = /^broker[- ](\d+)$/.exec(name);
  if (broker) return COLOURS[Number(broker[1]) % COLOURS.length];
  if (name === "ZooKeeper") return OF_ZOOKEEPER;
  return COLOURS[3 + ((order.get(name) ?? sum(name)) % (COLOURS.length - 3))]; // not the first brokers'
}

const sum = (name) => [...name].reduce((found, each) => (found * 31 + each.codePointAt(0)) % 65521, 7);

// Cuts a long text in its middle: names of members and topics mostly differ at the end.
export function middle(text, most) {
  if (text.length <= most) return text;
  const end = Math.floor((most - 1) * 0.45);
  return `${text.slice(0, most - 1 - end)}…${text.slice(text.length - end)}`;
}

// Shortens the ids of members in a text: "board_vm-1795403243048-ce9453fc" is "vm-ce94".
const IN_ZOOKEEPER = /[^\s:,/]*_([^\s_:,/]+)-\d{13}-([0-9a-f]{4})[0-9a-f]{4}(?:-0(?!\d))?/g;
const IN_BROKER = /([^\s:,/]+)-([0-9a-f]{4})[0-9a-f]{4}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
export const readable = (text) => text.replace(IN_ZOOKEEPER, "$1-$2").replace(IN_BROKER, "$1-$2").replace(named, "");

// Learn the groups' names: ZooKeeper knows the member anna of the group class as class_anna. Returns True if they changed.
let named = /(?!)/g;
export function knowGroups(names) {
  if (!names.length) return false;
  const before = named.source;
  named = new RegExp(`(?<![\\w./-])(?:${names.map((name) => name.replace(/[^\w]/g, "\\$&")).join("|")})_(?=\\w)`, "g");
  return named.source !== before;
}

// A button that folds the content after it. Its key restores the keyboard's focus after a redraw.
export function foldButton(name, open, toggled, ...children) {
  const label = children.length ? null : `what is below ${name.split(" ").at(-1)}`;
  return html("button", { class: "fold", "aria-expanded": String(open), "aria-label": label, "data-key": name, onclick: toggled },
    html("span", { class: "arrow", "aria-hidden": "true" }, open ? "▾" : "▸"), ...children);
}

// Replace the content, but keep the focus. Content that is already there stays, with its open lists and its focus.
export function replace(element, content) {
  if (element.childNodes.length === 1 && element.firstChild === content) return;
  const key = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  element.replaceChildren(content);
  if (key !== undefined) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

export const counted = (count, one, many) => `${count} ${count === 1 ? one : many}`;

const DAY = 86400, HOUR = 3600, MINUTE = 60;

// With two units at most.
export function duration(ms) {
  const seconds = Math.round(ms / 1000), two = (large, unit, small, part) => (small ? `${large} ${unit} ${small} ${part}` : `${large} ${unit}`);
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  if (seconds < MINUTE) return `${seconds} s`;
  if (seconds < HOUR) return two(Math.floor(seconds / MINUTE), "min", seconds % MINUTE, "s");
  if (seconds < DAY) return two(Math.floor(seconds / HOUR), "h", Math.floor((seconds % HOUR) / MINUTE), "min");
  return two(Math.floor(seconds / DAY), "d", Math.floor((seconds % DAY) / HOUR), "h");
}

export const size = (bytes) => (bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

const two = (value) => String(value).padStart(2, "0");
const day = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;

function zone(at) {
  const minutes = -at.getTimezoneOffset(), size = Math.abs(minutes);
  return `UTC${minutes < 0 ? "−" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

// With date and time zone, and the microsecond if it is known.
export function dated(ms, microsecond = null) {
  const at = new Date(ms), exact = microsecond === null || microsecond === undefined ? "" : String(microsecond).padStart(3, "0");
  return `${day(at)} ${clock(ms)}${exact} ${zone(at)}`;
}

// With the date, unless it is today.
export const when = (ms) => (day(new Date(ms)) === day(new Date()) ? clock(ms) : `${day(new Date(ms))} ${clock(ms)}`);

export function clock(ms) {
  const at = new Date(ms);
  const seconds = `${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
  return `${two(at.getHours())}:${two(at.getMinutes())}:${seconds}`;
}
