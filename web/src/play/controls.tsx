// Controls for every value that the scenario gives, and a list of those that it may give as well.

import { useRef, useState } from "preact/hooks";
import { parseQuantity, plain, type Control } from "../model/controls";
import { setKey, useStore } from "../model/store";

/** A slider covers this factor below and above the value that it found. */
const REACH = 30;
const STEPS = 200;

function toml(text: string): string {
  return JSON.stringify(text);
}

function Quantity({ control, id }: { control: Control; id: string }) {
  const now = parseQuantity(String(control.value)) ?? { number: 0, unit: control.units[0] ?? "" };
  const [found] = useState(now.number > 0 ? now.number : 1);
  const [foundUnit] = useState(now.unit);
  const write = (number: number, unit: string) => setKey(control.path, toml(`${plain(number)} ${unit}`));
  const whole = /packet|segment/.test(now.unit);
  const position = now.number > 0 ? (Math.log(now.number / found) / Math.log(REACH) + 1) / 2 : 0;
  const slide = (place: number) => {
    const number = found * REACH ** (2 * (place / STEPS) - 1);
    write(whole ? Math.max(1, Math.round(number)) : Number(number.toPrecision(2)), now.unit);
  };
  return (
    <div class="inputs">
      {now.unit === foundUnit && (
        <input type="range" min={0} max={STEPS} value={Math.round(position * STEPS)} aria-label={`${control.label}, slider`} onInput={(event) => slide(Number(event.currentTarget.value))} />
      )}
      <input id={id} class="number" inputMode="decimal" value={plain(now.number)} onChange={(event) => { const number = Number(event.currentTarget.value); write(Number.isFinite(number) ? number : now.number, now.unit); }} />
      <select value={now.unit} aria-label={`Unit of ${control.label}`} onChange={(event) => write(now.number, event.currentTarget.value)}>
        {control.units.map((unit) => <option key={unit} value={unit}>{unit}</option>)}
      </select>
    </div>
  );
}

function Plain({ control, id }: { control: Control; id: string }) {
  const value = Number(control.value);
  const [found] = useState(value > 0 ? value : 1);
  const isWhole = control.kind === "integer";
  const least = control.min ?? 0;
  const most = Math.min(control.max ?? Number.POSITIVE_INFINITY, isWhole ? Math.max(10, found * 4) : found * 10);
  const share = control.kind === "share";
  // Shares of interest are small: the slider is finer near zero.
  const top = share ? Math.min(1, Math.max(0.1, found * 10)) : most;
  const position = share ? Math.sqrt(Math.min(1, value / top)) : (value - least) / Math.max(1e-12, most - least);
  const slide = (place: number) => {
    const part = place / STEPS;
    const number = share ? top * part ** 2 : least + part * (most - least);
    setKey(control.path, isWhole ? String(Math.round(number)) : plain(Number(number.toPrecision(2))));
  };
  return (
    <div class="inputs">
      <input type="range" min={0} max={STEPS} value={Math.round(position * STEPS)} aria-label={`${control.label}, slider`} onInput={(event) => slide(Number(event.currentTarget.value))} />
      <input id={id} class="number" type="number" step="any" min={control.min ?? undefined} max={control.max ?? undefined} value={plain(value)} onChange={(event) => event.currentTarget.value !== "" && setKey(control.path, event.currentTarget.value)} />
      {share && <span class="of">{plain(value * 100)} %</span>}
    </div>
  );
}

function Input({ control, id }: { control: Control; id: string }) {
  switch (control.kind) {
    case "quantity":
      return <Quantity control={control} id={id} />;
    case "integer":
    case "number":
    case "share":
      return <Plain control={control} id={id} />;
    case "switch":
      return <div class="inputs"><input id={id} type="checkbox" checked={control.value === true} onChange={(event) => setKey(control.path, String(event.currentTarget.checked))} /></div>;
    case "choice":
      return (
        <div class="inputs">
          <select id={id} value={String(control.value)} onChange={(event) => setKey(control.path, toml(event.currentTarget.value))}>
            {control.choices.map((choice) => <option key={choice} value={choice}>{choice}</option>)}
          </select>
        </div>
      );
    case "text":
      return <div class="inputs"><input id={id} value={String(control.value)} onChange={(event) => setKey(control.path, toml(event.currentTarget.value))} /></div>;
  }
}

function Row({ control }: { control: Control }) {
  const [help, setHelp] = useState(false);
  const id = `key-${control.path.replaceAll(".", "-")}`;
  return (
    <div class="control">
      <div class="head">
        <label for={id}>{control.label}</label>
        <button type="button" class="help" aria-expanded={help} aria-controls={`${id}-help`} aria-label={`What ${control.label} means`} onClick={() => setHelp(!help)}>?</button>
      </div>
      <Input control={control} id={id} />
      <p id={`${id}-help`} class="helptext" hidden={!help}>
        {control.help} {control.range && <span>Range: {control.range}.</span>}{" "}
        {control.min !== null && control.max !== null && <span>Range: {control.min} to {control.max}.</span>} <code>{control.path}</code>
      </p>
    </div>
  );
}

export function Controls() {
  const { keys, checked, source, failure } = useStore();
  const groups = useRef<Map<string, boolean>>(new Map());
  if (!checked || failure) return null;
  if (source.json) return <p class="about">Controls change TOML; this scenario is JSON. Change it under “Text”.</p>;
  const { controls, absent } = keys.controls(JSON.parse(checked.json));
  const names = [...new Set(controls.map((control) => control.group))];
  const isOpen = (name: string, index: number) => groups.current.get(name) ?? index < 6;
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
          <select value="" onChange={(event) => { const one = absent.find((each) => each.path === event.currentTarget.value); event.currentTarget.value = ""; if (one) setKey(one.path, one.standard); }}>
            <option value="">choose …</option>
            {absent.map((one) => <option key={one.path} value={one.path} title={one.help}>{one.path} = {one.standard}</option>)}
          </select>
        </label>
      )}
    </div>
  );
}
