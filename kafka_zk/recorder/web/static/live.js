// The data of a page that kafka-zk serves: questions over HTTP, and the news of the recorder.

import { follow } from "./news.js";

export function live() {
  const hash = new URLSearchParams(location.hash.slice(1)), token = hash.get("token") ?? "";
  // This tab keeps the token; the address, which people share, must not contain it.
  if (hash.has("break")) sessionStorage.setItem("break", hash.get("break"));
  const breakToken = sessionStorage.getItem("break") ?? "";
  const ask = (question, values = {}) => answerOf(fetch(`api-${question}?${new URLSearchParams({ ...values, token })}`));
  return {
    ask,
    post: breakToken ? (request) => answerOf(fetch("api-break", { method: "POST", headers: { "x-kafka-zk-token": breakToken }, body: JSON.stringify(request) })) : null,
    follow: (onNews, onSilence) => follow(token, ask, onNews, () => onSilence("")),
    kept: token ? { token } : {},
    missing: token ? "" : "This page needs the token in the address that kafka-zk printed: open that address.",
    savingAddress: (range) => `api-export?${new URLSearchParams({ ...range, token })}`,
    codeAddress: (file) => `api-code?${new URLSearchParams({ file })}`,
  };
}

async function answerOf(response) {
  const answer = await response, document = await answer.json();
  if (!answer.ok) throw new Error(document.error);
  return document;
}
