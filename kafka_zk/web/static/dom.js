// Elements from data: text is always text, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const html = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, name), attributes, children);

// Okabe and Ito's colours, which the colour-blind can tell apart; every coloured thing has a name beside it.
const COLOURS = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00", "#7aa6ff", "#b2df8a"];
const chosen = new Map();

export function colour(name) {
  const broker = /^broker[- ](\d+)$/.exec(name);
  if (broker) return COLOURS[Number(broker[1]) % COLOURS.length];
  if (!chosen.has(name)) chosen.set(name, COLOURS[(chosen.size + 3) % COLOURS.length]);
  return chosen.get(name);
}

export function clock(ms) {
  const at = new Date(ms);
  const two = (value) => String(value).padStart(2, "0");
  const seconds = `${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
  return `${two(at.getHours())}:${two(at.getMinutes())}:${seconds}`;
}
