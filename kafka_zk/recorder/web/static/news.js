// The recorder's news for all tabs of this page. One tab listens and tells the others: a browser opens at most six
// connections to a server, and a seventh request would never be sent.

// `onNews` gets the recording's summary, `onSilence` is called when the recorder does not answer.
export function follow(token, ask, onNews, onSilence) {
  ask("recording").then(onNews, onSilence);
  if (!navigator.locks) return listen(token, onNews, onSilence); // another machine's page without TLS: each tab listens
  const name = `kafka-zk ${token}`, channel = new BroadcastChannel(name);
  channel.onmessage = ({ data }) => (data === null ? onSilence() : onNews(data));
  navigator.locks.request(name, () => new Promise(() => { // kept until this tab is closed
    listen(token, (told) => { channel.postMessage(told); onNews(told); }, () => { channel.postMessage(null); onSilence(); });
  }));
}

function listen(token, onNews, onSilence) {
  const news = new EventSource(`api-news?${new URLSearchParams({ token })}`);
  news.onmessage = (message) => onNews(JSON.parse(message.data));
  news.onerror = onSilence;
}
