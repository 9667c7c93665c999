// Controls for every value that the scenario gives, and a list of those that it may give as well. What is typed and
// cannot be is answered below its box, and changes nothing.

import { useRef, useState } from "preact/hooks";
import { parseQuantity, plain, readNumber, type Control } from "../model/controls";
import { choose, setKey, useStore } from "../model/store";
import { TextBox } from "../ui/box";

/** A slider covers this factor below and above the value that it found. */
const REACH = 30;
const STEPS = 200;

function toml(text: string): string {
  return JSON.stringify(text);
}

/** Sets a value, or says why not: `typed` stays in the box then. */
type Put = (value: string) => Promise<void>;
type Refuse = (typed: string, why: string) => void;

interface InputProps {
  control: Control;
  id: string;
  /** What was typed last and refused. */
  typed: string | null;
  put: Put;
  refuse: Refuse;
}

/** A box for a number, with its unit in it; as wide as what it holds. */
function NumberBox({ id, shown, unit, typed, take, refuse }: { id: string; shown: string; unit: string; typed: string | null; take: (number: number) => Promise<void>; refuse: Refuse }) {
  const enter = async (value: string) => {
    const number = readNumber(value);
    if (typeof number === "string") refuse(value, number);
    else if (value !== shown || typed !== null) await take(number);
  };
  return (
    <span class="boxed">
      <TextBox id={id} number shown={typed ?? shown} wrong={typed !== null} take={enter} />
      {unit && <span class="of">{unit}</span>}
    </span>
  );
}

function Quantity({ control, id, typed, put, refuse }: InputProps) {
  const now = parseQuantity(String(control.value)) ?? { number: 0, unit: control.units[0] ?? "" };
  const [found] = useState(now.number > 0 ? now.number : 1);
  const [foundUnit] = useState(now.unit);
  const write = (number: number, unit: string) => void put(toml(`${plain(number)} ${unit}`));
  const whole = /packet|segment/.test(now.unit);
  const position = now.number > 0 ? (Math.log(now.number / found) / Math.log(REACH) + 1) / 2 : 0;
  const slide = (place: number) => {
    const number = found * REACH ** (2 * (place / STEPS) - 1);
    write(whole ? Math.max(1, Math.round(number)) : Number(number.toPrecision(2)), now.unit);
  };
  return (
    <div class="inputs">
      {now.unit === foundUnit && (
        <input type="range" min={0} max={STEPS} value={Math.round(position * STEPS)} aria-label={`${control.label}, slider`} aria-valuetext={`${plain(now.number)} ${now.unit}`} onInput={(event) => slide(Number(event.currentTarget.value))} />
      )}
      <NumberBox id={id} shown={plain(now.number)} unit="" typed={typed} refuse={refuse} take={(number) => put(toml(`${number} ${now.unit}`))} />
      <select value={now.unit} aria-label={`Unit of ${control.label}`} onChange={(event) => write(now.number, event.currentTarget.value)}>
        {control.units.map((unit) => <option key={unit} value={unit}>{unit}</option>)}
      </select>
    </div>
  );
}

function Plain({ control, id, typed, put, refuse }: InputProps) {
  const value = Number(control.value);
  const [found] = useState(value);
  const isWhole = control.kind === "integer";
  const share = control.kind === "share";
  // A value below zero, as power in dBm, has room at both sides of it.
  const reach = Math.max(1, Math.abs(found) * (isWhole ? 4 : 10), isWhole ? 10 : 0);
  const least = Math.max(control.min ?? 0, found < 0 ? 2 * found : 0);
  const most = Math.min(control.max ?? Number.POSITIVE_INFINITY, found < 0 ? 0 : reach);
  // Shares of interest are small: the slider is finer near zero.
  const top = share ? Math.min(1, Math.max(0.1, found * 10)) : most;
  const position = share ? Math.sqrt(Math.min(1, value / top)) : (value - least) / Math.max(1e-12, most - least);
  const slide = (place: number) => {
    const part = place / STEPS;
    const number = share ? top * part ** 2 : least + part * (most - least);
    void put(isWhole ? String(Math.round(number)) : plain(Number(number.toPrecision(found < 0 ? 3 : 2))));
  };
  return (
    <div class="inputs">
      <input type="range" min={0} max={STEPS} value={Math.round(position * STEPS)} aria-label={`${control.label}, slider`} aria-valuetext={`${plain(value)} ${control.unit}`.trim()} onInput={(event) => slide(Number(event.currentTarget.value))} />
      <NumberBox id={id} shown={Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)))} unit={control.unit} typed={typed} refuse={refuse} take={(number) => put(String(number))} />
      {share && <span class="of">{plain(value * 100)} %</span>}
    </div>
  );
}

function Input(props: InputProps) {
  const { control, id, typed, put } = props;
  switch (control.kind) {
    case "quantity":
      return <Quantity {...props} />;
    case "integer":
    case "number":
    case "share":
      return <Plain {...props} />;
    case "switch":
      return <div class="inputs"><input id={id} type="checkbox" checked={control.value === true} onChange={(event) => void put(String(event.currentTarget.checked))} /></div>;
    case "choice":
      return (
        <div class="inputs">
          <select id={id} value={String(control.value)} onChange={(event) => void put(toml(event.currentTarget.value))}>
            {control.choices.map((choice) => <option key={choice} value={choice}>{choice}</option>)}
          </select>
        </div>
      );
    case "drawn": {
      const { standard } = control;
      const single = typeof standard === "string" ? toml(standard) : String(standard);
      return (
        <div class="inputs">
          <span class="drawn">at random: {String(control.value)}</span>
          {standard !== undefined && <button type="button" id={id} class="quiet" aria-label={`${control.label}: always ${String(standard)}`} onClick={() => void put(single)}>Always {String(standard)}</button>}
        </div>
      );
    }
    case "text":
      return <div class="inputs"><TextBox id={id} shown={typed ?? String(control.value)} wrong={typed !== null} take={(value) => put(toml(value))} /></div>;
  }
}

/** From where to where a value may be, in words. */
function rangeOf({ range, min, max, unit }: Control): string {
  if (range) return range;
  if (min === null || max === null) return "";
  return `${min} to ${max}${unit ? ` ${unit}` : ""}`;
}

function Row({ control }: { control: Control }) {
  const [help, setHelp] = useState(false);
  const [wrong, setWrong] = useState<{ typed: string; why: string } | null>(null);
  const id = `key-${control.path.replaceAll(".", "-")}`;
  const range = rangeOf(control);
  const put = async (value: string) => {
    const failure = await setKey(control.path, value);
    const typed = parseQuantity(value.replaceAll('"', ""))?.number;
    setWrong(failure ? { typed: typed === undefined ? value.replaceAll('"', "").replace(/ .*/, "") : String(typed), why: range ? `${failure.message}; it may be ${range}` : failure.message } : null);
  };
  return (
    <div class={wrong ? "control refused" : "control"}>
      <div class="head">
        <label for={id}>{control.label}</label>
        <button type="button" class="help" aria-expanded={help} aria-controls={`${id}-help`} aria-label={`What ${control.label} means`} onClick={() => setHelp(!help)}>?</button>
      </div>
      <Input control={control} id={id} typed={wrong?.typed ?? null} put={put} refuse={(typed, why) => setWrong({ typed, why: range ? `${why}; it may be ${range}` : why })} />
      {wrong && <p id={`${id}-wrong`} class="wrong" role="alert">{wrong.why}. It stays as it was.</p>}
      <p id={`${id}-help`} class="helptext" hidden={!help}>
        {control.help} {range && <span>Range: {range}.</span>} <code>{control.path}</code>
      </p>
    </div>
  );
}

export function Controls() {
  const { keys, checked, source, failure } = useStore("keys", "checked", "source", "failure");
  const groups = useRef<Map<string, boolean>>(new Map());
  const [wrong, setWrong] = useState<string | null>(null);
  if (!checked && !failure) return null;
  if (failure || !checked) {
    return (
      <div class="message bad" role="alert" id="scenario-error">
        <pre>{failure?.text}</pre>
        <button type="button" onClick={() => choose("tab", "text")}>Go to the text</button>
      </div>
    );
  }
  if (source.json) return <p class="about">Controls change TOML; this scenario is JSON. Change it under “Text”.</p>;
  const { controls, absent } = keys.controls(JSON.parse(checked.json));
  const names = [...new Set(controls.map((control) => control.group))];
  const isOpen = (name: string, index: number) => groups.current.get(name) ?? index < 6;
  const add = async (path: string) => {
    const one = absent.find((each) => each.path === path);
    const refused = one ? await setKey(one.path, one.standard) : null;
    setWrong(refused ? `${path}: ${refused.message}` : null);
  };
  return (
    <div class="controls">
      {names.map((name, index) => (
        <details key={name} open={isOpen(name, index)} onToggle={(event) => groups.current.set(name, event.currentTarget.open)}>
          <summary>{name}</summary>
          {controls.filter((control) => control.group === name).map((control) => <Row key={control.path} control={control} />)}
        </details>
      ))}
      {absent.length > 0 && (
        <label class="field more">
          <span>Set another key</span>
          <select value="" onChange={(event) => { const path = event.currentTarget.value; event.currentTarget.value = ""; void add(path); }}>
            <option value="">choose …</option>
            {absent.map((one) => <option key={one.path} value={one.path} title={one.help}>{one.path} = {one.standard}</option>)}
          </select>
        </label>
      )}
      {wrong && <p class="wrong" role="alert">{wrong}. Nothing was changed.</p>}
    </div>
  );
}
