// The questions of one drawing in one request: many viewers ask the same server, and a request costs it more than an answer that it has.

// `send(asked)`: the answers to a list of [question, values], each with an `answer` or an `error`. Returns a function that asks one question.
export function together(send) {
  let waiting = [];
  async function flush() {
    const asked = waiting;
    waiting = [];
    try {
      const answers = await send(asked.map(({ question, values }) => [question, Object.fromEntries(new URLSearchParams(values))]));
      asked.forEach(({ resolve, reject }, index) => {
        const { answer, error } = answers[index];
        if (error === undefined) resolve(answer);
        else reject(new Error(error));
      });
    } catch (error) {
      for (const each of asked) each.reject(error);
    }
  }
  return (question, values = {}) => new Promise((resolve, reject) => {
    if (!waiting.length) queueMicrotask(flush);
    waiting.push({ question, values, resolve, reject });
  });
}
