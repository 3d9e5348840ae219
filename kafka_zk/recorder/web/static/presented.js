// What the presenter's page shows, and how a viewer's page shows the same. The server checks each field (presentation.py).

import { folds, takeFolds } from "./folds.js";
import { chooseEpisode } from "./happened.js";

const FOLLOWED = new Set(["cluster", "tree", "lag", "strategies", "help"]); // the others show what only the presenter may ask
const id = (name) => document.getElementById(name);

export function presented(page) {
  const { episode, slowly } = page, isPlayed = slowly.isOpen && slowly.at >= 0;
  return {
    seq: page.seq, at: page.at, view: FOLLOWED.has(page.view) ? page.view : "cluster", chosen: page.chosen, znode: page.znode, below: page.below,
    filter: id("filter").value, window_s: Number(id("window").value), every: id("every").checked, folds: folds(),
    episode: episode && page.chosen !== null ? { seq: episode.seq, subject: episode.subject } : null,
    slowly: isPlayed ? { step: slowly.at, until_ms: Number.isFinite(slowly.told.until_ms) ? slowly.told.until_ms : null } : null,
    lesson: page.lesson?.place() ?? null,
  };
}

// `acts`: `choose(seq, episode)` and `playSlowly(episode, until_ms)` as of the reader, `episodeOf(wanted)` and `draw()`.
// `isFollowing()`: False once the viewer has let go, perhaps while an answer was on its way; what the viewer shows since then stays.
export async function showPresented(told, page, acts, isFollowing) {
  const { seq, at, view, chosen, znode, below } = told;
  page.playing = false;
  if (told.lesson && page.lesson && JSON.stringify(told.lesson) !== JSON.stringify(page.lesson.place())) await page.lesson.take(told.lesson);
  if (!isFollowing()) return;
  id("filter").value = told.filter;
  id("window").value = String(told.window_s);
  id("every").checked = told.every;
  takeFolds(told.folds);
  Object.assign(page, { view, below });
  const episode = told.episode && await acts.episodeOf(told.episode);
  if (!isFollowing()) return;
  if (told.slowly && episode) {
    if (!page.slowly.isOpen || page.episode?.seq !== episode.seq || page.episode.subject !== episode.subject) {
      await chooseEpisode(episode, acts.choose); // what is shown when slow motion ends
      if (!isFollowing()) return;
      await acts.playSlowly(episode, told.slowly.until_ms ?? Infinity);
    }
    if (page.slowly.isOpen && isFollowing()) await page.slowly.go(told.slowly.step);
  } else {
    page.slowly.close();
    if (chosen !== null && chosen !== page.chosen) await (episode ? chooseEpisode(episode, acts.choose) : acts.choose(chosen));
    if (!isFollowing()) return;
    Object.assign(page, { seq, at, chosen, znode });
  }
  await acts.draw();
}
