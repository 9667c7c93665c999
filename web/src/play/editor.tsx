// The scenario as text: a plain text area over a copy of itself that shows colours, line numbers and the place of a
// mistake, with the message as the command line prints it.

import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Failure } from "../engine/types";
import { edit, useStore } from "../model/store";

/** Longer texts are shown without colours. */
const MOST_COLOURED = 100_000;

interface Mark {
  line: number;
  column: number;
  width: number;
}

/** Where the message of the engine points: the last numbers of its place, and its carets. */
export function markOf(failure: Failure | null): Mark | null {
  const found = /:(\d+):(\d+)$/.exec(failure?.place ?? "");
  if (!found || !failure) return null;
  const carets = /\n *\| +(\^+) ?/.exec(failure.text);
  return { line: Number(found[1]), column: Number(found[2]), width: carets?.[1]?.length ?? 1 };
}

function coloured(line: string) {
  const comment = /^((?:[^"'#]|"(?:[^"\\]|\\.)*"|'[^']*')*)(#.*)$/.exec(line);
  const code = comment ? (comment[1] ?? "") : line;
  const parts = code.split(/("(?:[^"\\]|\\.)*"|'[^']*')/);
  return (
    <>
      {parts.map((part, index) => (index % 2 ? <i class="string">{part}</i> : /^\s*\[/.test(part) && index === 0 && parts.length === 1 ? <b>{part}</b> : part))}
      {comment && <i class="comment">{comment[2]}</i>}
    </>
  );
}

function Line({ text, mark }: { text: string; mark: Mark | null }) {
  if (!mark) return <>{coloured(text)}{"\n"}</>;
  const letters = [...text];
  const from = mark.column - 1;
  const width = Math.max(1, Math.min(mark.width, letters.length - from));
  const middle = letters.slice(from, from + width).join("");
  return <>{letters.slice(0, from).join("")}<mark>{middle || " "}</mark>{letters.slice(from + width).join("")}{"\n"}</>;
}

export function Editor() {
  const { source, failure } = useStore("source", "failure");
  const area = useRef<HTMLTextAreaElement>(null);
  const back = useRef<HTMLPreElement>(null);
  const mark = source.json ? null : markOf(failure);
  const isLong = source.text.length > MOST_COLOURED;
  const lines = useMemo(() => (isLong ? [] : source.text.split("\n")), [source.text, isLong]);
  const scroll = () => {
    if (!area.current || !back.current) return;
    back.current.scrollTop = area.current.scrollTop;
    back.current.scrollLeft = area.current.scrollLeft;
  };
  useEffect(scroll);
  const go = () => {
    if (!area.current || !mark) return;
    const before = source.text.split("\n").slice(0, mark.line - 1).join("\n").length + (mark.line > 1 ? 1 : 0);
    area.current.focus();
    area.current.setSelectionRange(before + mark.column - 1, before + mark.column - 1 + mark.width);
  };
  return (
    <div class="editor">
      {failure && (
        <div class="message bad" role="alert" id="scenario-error">
          <pre>{failure.text}</pre>
          {mark && <button type="button" onClick={go}>Go to line {mark.line}</button>}
        </div>
      )}
      <div class={`text ${isLong ? "long" : ""}`}>
        {!isLong && (
          <pre ref={back} aria-hidden="true">
            {lines.map((line, index) => (
              <span key={index} class={mark?.line === index + 1 ? "line wrong" : "line"}>
                <Line text={line} mark={mark?.line === index + 1 ? mark : null} />
              </span>
            ))}
          </pre>
        )}
        <textarea
          ref={area}
          aria-label="Scenario as text"
          aria-invalid={failure !== null}
          aria-describedby={failure ? "scenario-error" : undefined}
          spellcheck={false}
          autocomplete="off"
          wrap={isLong ? "off" : "soft"}
          value={source.text}
          onInput={(event) => edit(event.currentTarget.value)}
          onScroll={scroll}
        />
      </div>
    </div>
  );
}
