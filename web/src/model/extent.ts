// The least and the greatest of many numbers. Math.min and Math.max take them as arguments, of which a call has room for
// about a hundred thousand: a page with more flows than that would end there.

export function least(values: Iterable<number>): number {
  let found = Number.POSITIVE_INFINITY;
  for (const value of values) found = Math.min(found, value);
  return found;
}

/** `from` if there are none, or none greater. */
export function greatest(values: Iterable<number>, from = Number.NEGATIVE_INFINITY): number {
  let found = from;
  for (const value of values) found = Math.max(found, value);
  return found;
}
