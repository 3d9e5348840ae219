// The recorder's news for all tabs of this page. One tab listens and tells the others: a browser opens at most six
// connections to a server, and a seventh request would never be sent.

const AGAIN_MS = 5000;

// `onNews` gets the recording's summary, `onSilence` is called when the recorder does not answer (""), or refuses, with its reason.
export function follow(token, ask, onNews, onSilence) {
  ask("recording").then(onNews, (error) => onSilence(error.isRefusal ? error.message : ""));
  if (!navigator.locks) return listen(token, onNews, onSilence); // another machine's page without TLS: each tab listens
  const name = `kafka-zk ${token}`, channel = new BroadcastChannel(name);
  channel.onmessage = ({ data: { told, why } }) => (told ? onNews(told) : onSilence(why));
  navigator.locks.request(name, () => new Promise(() => { // kept until this tab is closed
    listen(token, (told) => { channel.postMessage({ told }); onNews(told); }, (why) => { channel.postMessage({ why }); onSilence(why); });
  }));
}

function listen(token, onNews, onSilence) {
  const address = `api-news?${new URLSearchParams({ token })}`, news = new EventSource(address);
  news.onmessage = (message) => onNews(JSON.parse(message.data));
  news.onerror = async () => {
    if (news.readyState !== EventSource.CLOSED) return onSilence(""); // the browser tries again by itself
    setTimeout(() => listen(token, onNews, onSilence), AGAIN_MS); // but not after a refusal, whose reason it does not tell
    onSilence(await whyRefused(address));
  };
}

// The server's reason; "" if it does not answer, or does not refuse any more.
async function whyRefused(address) {
  const asking = new AbortController();
  try {
    const answer = await fetch(address, { signal: asking.signal });
    return answer.ok ? "" : (await answer.json()).error;
  } catch {
    return "";
  } finally {
    asking.abort();
  }
}
