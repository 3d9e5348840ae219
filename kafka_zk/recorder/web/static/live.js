// The data of a page that kafka-zk serves: questions over HTTP, and the news of the recorder.

import { follow } from "./news.js";
import { together } from "./together.js";

const HERE = new Set(["127.0.0.1", "localhost"]), MOST_CHARACTERS = 8000; // of an address
const WITHOUT_TOKEN = {
  true: "This page needs the token in the address that kafka-zk printed: open that address.",
  false: "This page needs the whole link, with all that follows the #: ask the presenter for it.",
};

export function live() {
  const hash = new URLSearchParams(location.hash.slice(1)), token = hash.get("token") ?? "";
  // This tab keeps the token; the address, which people share, must not contain it.
  if (hash.has("break")) sessionStorage.setItem("break", hash.get("break"));
  if (hash.has("values")) sessionStorage.setItem("values", hash.get("values"));
  const valuesToken = sessionStorage.getItem("values") ?? "";
  const breakToken = sessionStorage.getItem("break") ?? "";
  const askAlone = (question, values = {}) => answerOf(fetch(`api-${question}?${new URLSearchParams({ ...values, token })}`));
  const askTogether = together(async (asked) => {
    const values = { asked: JSON.stringify(asked) };
    if (asked.length > 1 && new URLSearchParams(values).toString().length < MOST_CHARACTERS) return (await askAlone("several", values)).answers;
    return Promise.all(asked.map((each) => askAlone(...each).then((answer) => ({ answer }), (error) => ({ error: error.message }))));
  });
  // Only viewers' pages are at another address; their server has this question.
  const ask = (question, values) => (HERE.has(location.hostname) || question === "recording" ? askAlone : askTogether)(question, values);
  const send = (path, body) => answerOf(fetch(path, { method: "POST", headers: { "x-kafka-zk-token": breakToken }, body: JSON.stringify(body) }));
  return {
    ask,
    post: breakToken ? (request) => send("api-break", request) : null,
    present: breakToken ? (shown) => send("api-present", shown) : null,
    follow: (onNews, onSilence) => follow(token, ask, onNews, onSilence),
    askPrivately: valuesToken ? (question, values) => answerOf(fetch(`api-${question}?${new URLSearchParams({ ...values, token })}`, { headers: { "x-kafka-zk-token": valuesToken } })) : null,
    isViewers: !HERE.has(location.hostname),
    hasLag: true,
    kept: token ? { token } : {},
    missing: token ? "" : WITHOUT_TOKEN[HERE.has(location.hostname)],
    savingAddress: (range) => `api-export?${new URLSearchParams({ ...range, token })}`,
    codeAddress: (file) => `api-code?${new URLSearchParams({ file })}`,
  };
}

async function answerOf(response) {
  const answer = await response;
  if (answer.ok) return answer.json();
  const { error } = await answer.json().catch(() => ({ error: `the server refused this request: ${answer.status} ${answer.statusText}` }));
  throw Object.assign(new Error(error), { isRefusal: true });
}
