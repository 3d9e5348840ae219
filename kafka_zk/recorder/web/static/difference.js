// A znode's data as lines, and what differs between two of them.

const MOST_LINES = 300, MOST_DEPTH = 40;
const NUMBER = /^(?:-?\d+|"-?\d+")$/;
const TOKEN = /"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s[\]{}:,"]+/g;

// JSON with a line for each value, lists of numbers on one; anything else as it is. Values stay as they were written: JavaScript's
// numbers would change 1e999 and long integers.
export function pretty(data) {
  if (data === null || data === "") return "";
  try {
    JSON.parse(data);
  } catch {
    return data;
  }
  const tokens = data.match(TOKEN) ?? [];
  let depth = 0, found = "", before = "";
  for (let index = 0; index < tokens.length; index += 1) {
    const numbers = listOfNumbers(tokens, index), token = numbers ? `[${numbers.join(", ")}]` : tokens[index];
    const opens = "[{".includes(token), closes = "]}".includes(token);
    if (closes) depth -= 1;
    if ((before && "[{,".includes(before) && !closes) || (closes && !"[{".includes(before))) found += `\n${" ".repeat(Math.min(depth, MOST_DEPTH))}`;
    found += token === ":" ? ": " : token;
    if (opens) depth += 1;
    before = token;
    if (numbers) index += numbers.length ? 2 * numbers.length : 1;
  }
  return found;
}

// The items of a list that begins at a token; null if there is no list, or if it has something other than numbers.
function listOfNumbers(tokens, begin) {
  if (tokens[begin] !== "[") return null;
  const items = [];
  for (let index = begin + 1; index < tokens.length && tokens[index] !== "]"; index += 1) {
    if (tokens[index] === ",") continue;
    if (!NUMBER.test(tokens[index])) return null;
    items.push(tokens[index]);
  }
  return items;
}

// Pairs of "+", "-" or " " and a line: the longest common subsequence stays.
export function differingLines(before, after) {
  const a = before === "" ? [] : before.split("\n"), b = after === "" ? [] : after.split("\n");
  if (a.length > MOST_LINES || b.length > MOST_LINES) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const found = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) { found.push([" ", a[i]]); i += 1; j += 1; }
    else if (i < a.length && (j === b.length || common[i + 1][j] >= common[i][j + 1])) { found.push(["-", a[i]]); i += 1; }
    else { found.push(["+", b[j]]); j += 1; }
  }
  return found;
}
