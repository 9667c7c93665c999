// The senders that race: chips in the colours of their curves.

import { AS_WRITTEN, MOST_SENDERS, NO_HELPER, setHelpers, setSenders, shownSender, useStore } from "../model/store";
import { styles } from "../model/style";

export function Senders() {
  const state = useStore("keys", "senders", "helpers", "checked");
  const known = state.keys.transports;
  const names = state.senders.map((sender) => shownSender(sender, state.checked));
  const style = styles(names, known);
  const canChange = state.checked?.description.flows.some((flow) => flow.transport !== "udp") ?? false;
  const free = known.filter((name) => name !== "udp" && !names.includes(name));
  return (
    <section class="senders" aria-labelledby="senders-title">
      <h2 id="senders-title">Senders</h2>
      <ul>
        {state.senders.map((sender, index) => {
          const name = names[index] ?? sender;
          return (
            <li key={sender} class={`chip sender-${style.get(name) ?? 0}`} title={state.keys.aboutTransport(name) || undefined}>
              <svg viewBox="0 0 22 6" aria-hidden="true"><path d="M0 3h22" /></svg>
              <span>{name}</span>
              {sender === AS_WRITTEN && name !== AS_WRITTEN && state.senders.length === 1 && <small>as written</small>}
              {state.senders.length > 1 && (
                <button type="button" aria-label={`Remove ${name}`} onClick={() => setSenders(state.senders.filter((one) => one !== sender))}>×</button>
              )}
            </li>
          );
        })}
        {canChange && (state.senders.length + 1) * Math.max(1, state.helpers.length) <= MOST_SENDERS && (
          <li>
            <select aria-label="Add a sender" value="" onChange={(event) => { const name = event.currentTarget.value; event.currentTarget.value = ""; if (name) setSenders([...state.senders, name]); }}>
              <option value="">+ add</option>
              {free.map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
          </li>
        )}
      </ul>
    </section>
  );
}

/** Helpers in the network, side by side like senders. */
export function Helpers() {
  const { about, checked, helpers, senders } = useStore("about", "checked", "helpers", "senders");
  if (!checked) return null;
  const own = (JSON.parse(checked.json) as { helpers?: (string | { kind: string })[] }).helpers ?? [];
  const written = [...new Set(own.map((entry) => (typeof entry === "string" ? entry : entry.kind)))].join("+") || NO_HELPER;
  const shown = helpers.length > 0 ? helpers : [written];
  const known = [NO_HELPER, ...about.helpers.map((one) => one.name)];
  const helpOf = (name: string) => about.helpers.find((one) => one.name === name)?.summary;
  const remove = (name: string) => {
    const rest = helpers.filter((one) => one !== name);
    setHelpers(rest.length === 1 && rest[0] === written ? [] : rest);
  };
  return (
    <section class="senders" aria-labelledby="helpers-title">
      <h2 id="helpers-title">Helpers in the network</h2>
      <ul>
        {shown.map((name) => (
          <li key={name} class="chip" title={helpOf(name)}>
            <span>{name}</span>
            {shown.length > 1 && <button type="button" aria-label={`Remove ${name}`} onClick={() => remove(name)}>×</button>}
          </li>
        ))}
        {senders.length * (shown.length + 1) <= MOST_SENDERS && (
          <li>
            <select aria-label="Add a helper" value="" onChange={(event) => { const name = event.currentTarget.value; event.currentTarget.value = ""; if (name) setHelpers([...shown, name]); }}>
              <option value="">+ add</option>
              {known.filter((name) => !shown.includes(name)).map((name) => <option key={name} value={name} title={helpOf(name)}>{name}</option>)}
            </select>
          </li>
        )}
      </ul>
    </section>
  );
}
