// Send one record to a topic: first its plan, without its content, then the record.

import { html } from "./dom.js";

const FORMATS = ["string", "json", "integer", "long", "float", "double", "bytes"];

export function sendRecord(dialog, topic) {
  const partition = html("input", { name: "partition", type: "number", min: 0, placeholder: "by the key" }), key = content("key", true), value = content("value", false);
  const request = () => ({ action: "plan-record", topic, ...(partition.value === "" ? {} : { partition: Number(partition.value) }), ...key.given(), ...value.given() });
  dialog.open(`Send a record to topic ${topic}`, [html("label", {}, "partition ", partition), ...key.fields, ...value.fields], { request, action: "send-record",
    planned: (told) => ({ label: `send it as ${told.principal}`, shown: [html("p", {}, `A record with ${size("key", told.key_bytes)} and ${size("value", told.value_bytes)} goes to ${
      told.partition === null ? "the partition that its key chooses" : `partition ${told.partition}`} of ${told.topic}. Nothing has been sent yet.`)] }),
    done: (told) => `The record has offset ${told.offset} in ${topic}-${told.partition}; it was sent as ${told.principal}.` });
}

const size = (name, bytes) => (bytes === null ? `the ${name} null` : `a ${name} of ${bytes} bytes`);

function content(name, isNull) {
  const text = html("textarea", { name, rows: 2, cols: 50, disabled: isNull }), none = html("input", { type: "checkbox", name: `${name}-null`, checked: isNull });
  const format = html("select", { name: `${name}-format` }, FORMATS.map((each) => html("option", { value: each }, each)));
  none.addEventListener("change", () => { text.disabled = none.checked; });
  return { fields: [html("label", {}, `${name} `, text), html("label", {}, none, ` ${name} is null`), html("label", {}, `${name} as `, format)],
    given: () => (none.checked ? {} : { [name]: text.value, [`${name}_format`]: format.value }) };
}
