// Says what of a value does not fit its schema, in words for the person who typed it. The server decides; this only
// warns, so it knows the words of JSON Schema that people meet, and keeps silent about the rest.

import { branchOf, equal, fieldOf, isObject, typeOf } from "./resolve.js";

const MOST = 50;

/** Return what is wrong with a value: a list of `{path, message}`. */
export function check(value, schema, root = schema) {
    const problems = [];
    inspect(value, schema, root, "", problems, 0);
    return problems.slice(0, MOST);
}

function inspect(value, schema, root, path, problems, depth) {
    if (depth > 32 || problems.length > MOST) return;
    const field = fieldOf(schema, root);
    const complain = (message) => problems.push({ path, message });
    if (value === null && (field.nullable || field.kind === "null" || field.kind === "any")) return;
    if (field.kind === "any") return;
    if (field.kind === "constant") {
        if (!equal(value, field.schema.const)) complain(`must be ${JSON.stringify(field.schema.const)}`);
    } else if (field.kind === "enum") {
        if (!field.options.some((option) => equal(option.value, value)))
            complain(`must be one of ${field.options.map((option) => option.label).join(", ")}`);
    } else if (field.kind === "choice") {
        inspect(value, field.options[branchOf(value, field.options, root)].schema, root, path, problems, depth + 1);
    } else if (!hasType(value, field.kind)) {
        complain(`must be ${article(field.kind)}, and is ${article(typeOf(value))}`);
    } else if (field.kind === "object") {
        inspectObject(value, field.schema, root, path, problems, depth);
    } else if (field.kind === "array") {
        inspectArray(value, field.schema, root, path, problems, depth);
    } else if (field.kind === "string") {
        inspectString(value, field.schema, complain);
    } else {
        inspectNumber(value, field.schema, complain);
    }
}

function hasType(value, kind) {
    return typeOf(value) === kind || (kind === "number" && typeOf(value) === "integer");
}

function inspectObject(value, schema, root, path, problems, depth) {
    for (const name of schema.required ?? [])
        if (!(name in value)) problems.push({ path: `${path}/${name}`, message: "is required" });
    const properties = schema.properties ?? {};
    for (const [name, part] of Object.entries(value)) {
        if (name in properties) inspect(part, properties[name], root, `${path}/${name}`, problems, depth + 1);
        else if (schema.additionalProperties === false)
            problems.push({ path: `${path}/${name}`, message: "is not a property of the schema" });
        else if (isObject(schema.additionalProperties))
            inspect(part, schema.additionalProperties, root, `${path}/${name}`, problems, depth + 1);
    }
}

function inspectArray(value, schema, root, path, problems, depth) {
    if (value.length < (schema.minItems ?? 0))
        problems.push({ path, message: `needs at least ${schema.minItems} items` });
    if (value.length > (schema.maxItems ?? Infinity))
        problems.push({ path, message: `has room for ${schema.maxItems} items` });
    value.forEach((item, place) =>
        inspect(item, schema.prefixItems?.[place] ?? schema.items ?? {}, root, `${path}/${place}`, problems, depth + 1),
    );
}

function inspectString(value, schema, complain) {
    const length = [...value].length;
    if (length < (schema.minLength ?? 0)) complain(`needs at least ${schema.minLength} characters`);
    if (length > (schema.maxLength ?? Infinity)) complain(`has room for ${schema.maxLength} characters`);
    if (schema.pattern && !matches(value, schema.pattern)) complain(`must match ${schema.pattern}`);
}

function matches(value, pattern) {
    if (value.length > 1_000 || pattern.length > 200) return true;
    try {
        return new RegExp(pattern, "u").test(value);
    } catch {
        return true;
    }
}

function inspectNumber(value, schema, complain) {
    if (typeof value !== "number") return;
    if (value < (schema.minimum ?? -Infinity)) complain(`must be at least ${schema.minimum}`);
    if (value > (schema.maximum ?? Infinity)) complain(`must be at most ${schema.maximum}`);
    if (value <= (schema.exclusiveMinimum ?? -Infinity)) complain(`must be more than ${schema.exclusiveMinimum}`);
    if (value >= (schema.exclusiveMaximum ?? Infinity)) complain(`must be less than ${schema.exclusiveMaximum}`);
    if (Math.abs(value) > Number.MAX_SAFE_INTEGER) complain("is larger than a browser can hold exactly");
}

function article(kind) {
    return kind === "null" ? "null" : /^[aeio]/.test(kind) ? `an ${kind}` : `a ${kind}`;
}
