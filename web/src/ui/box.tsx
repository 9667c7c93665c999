// A box for text. The page is drawn anew whenever a run reports: what is being typed stays in its box all the same.

import { useState, type Dispatch, type StateUpdater } from "preact/hooks";

/** What a box holds, which is what is typed into it, else `shown`; and how to set what is typed, null at its end. */
export function useTyped(shown: string): [string, Dispatch<StateUpdater<string | null>>] {
  const [typed, type] = useState<string | null>(null);
  return [typed ?? shown, type];
}

interface Props {
  id: string;
  shown: string;
  /** `shown` was refused; `${id}-wrong` says why. */
  wrong: boolean;
  /** Takes what was typed when it is entered; the box shows that until this is over. */
  take: (value: string) => Promise<void>;
  /** Of a number: room for five letters at least, and for what the box holds. */
  number?: boolean;
}

export function TextBox({ id, shown, wrong, take, number = false }: Props) {
  const [text, type] = useTyped(shown);
  const enter = async (value: string) => {
    await take(value);
    type((now) => (now === value ? null : now));
  };
  return (
    <input
      id={id} type="text" value={text} aria-invalid={wrong} aria-describedby={wrong ? `${id}-wrong` : undefined}
      {...(number && { class: "number", inputMode: "decimal", size: Math.max(5, text.length) })}
      onInput={(event) => type(event.currentTarget.value)}
      onChange={(event) => void enter(event.currentTarget.value)}
    />
  );
}
