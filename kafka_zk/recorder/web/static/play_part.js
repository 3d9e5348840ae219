// The part of a play between two moments. Lanes without a step in it are left out: they would reveal who acts later.
export function partOf(play, from_ms, to_ms) {
  const steps = play.steps.filter((each) => each.time_ms >= from_ms && each.time_ms <= to_ms);
  const used = new Set(steps.flatMap(({ source, target }) => [source, target]));
  const places = play.lanes.map((_, index) => index).filter((index) => used.has(index)), place = (index) => places.indexOf(index);
  return { ...play, lanes: places.map((index) => play.lanes[index]),
    steps: steps.map((each) => ({ ...each, source: place(each.source), target: place(each.target) })) };
}
