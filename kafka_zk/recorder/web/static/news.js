// The recorder's news for all tabs of this page. One tab listens and tells the others: a browser opens at most six
// connections to a server, and a seventh request would never be sent.

// `onNews` gets the recording's summary, `onSilence` is called when the recorder does not answer.
export function follow(token, ask, onNews, onSilence) {
  const name = `kafka-zk ${token}`, channel = new BroadcastChannel(name);
  channel.onmessage = ({ data }) => (data === null ? onSilence() : onNews(data));
  ask("recording").then(onNews, onSilence);
  navigator.locks.request(name, () => new Promise(() => { // kept until this tab is closed
    const news = new EventSource(`api-news?${new URLSearchParams({ token })}`);
    news.onmessage = (message) => { const told = JSON.parse(message.data); channel.postMessage(told); onNews(told); };
    news.onerror = () => { channel.postMessage(null); onSilence(); };
  }));
}
