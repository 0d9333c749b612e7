// Reads JSON Schemas for forms: follows references, merges `allOf`, and says what kind of field a schema asks for.
// Nothing here touches the DOM.

const MOST_REFERENCES = 32;
const BRANCH_WORDS = ["type", "properties", "const", "enum", "$ref", "items", "oneOf", "anyOf", "allOf"];

/** Return a schema with its references followed and its `allOf` merged; a reference that leads nowhere gives `{}`. */
export function resolve(schema, root) {
    let found = isObject(schema) ? schema : {};
    for (let step = 0; "$ref" in found; step += 1) {
        const { $ref: reference, ...beside } = found;
        const target = step < MOST_REFERENCES ? lookUp(reference, root) : {};
        found = { ...(isObject(target) ? target : {}), ...beside };
    }
    if (!Array.isArray(found.allOf)) return found;
    const { allOf, ...rest } = found;
    return allOf
        .map((part) => resolve(part, root))
        .concat([rest])
        .reduce(merge, {});
}

function lookUp(reference, root) {
    if (typeof reference !== "string" || !reference.startsWith("#")) return {};
    const pointer = decodeURIComponent(reference.slice(1));
    if (pointer && !pointer.startsWith("/"))
        return Object.values(root.$defs ?? {}).find((one) => one?.$anchor === pointer) ?? {};
    const steps = pointer
        .split("/")
        .slice(1)
        .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
    return (
        steps.reduce((place, step) => (isObject(place) || Array.isArray(place) ? place[step] : undefined), root) ?? {}
    );
}

function merge(one, other) {
    const merged = { ...one, ...other };
    if (one.required && other.required) merged.required = [...new Set([...one.required, ...other.required])];
    if (one.properties && other.properties) {
        merged.properties = { ...one.properties };
        for (const [name, schema] of Object.entries(other.properties))
            merged.properties[name] = name in one.properties ? { allOf: [one.properties[name], schema] } : schema;
    }
    return merged;
}

/**
 * Return what a schema asks for: `kind` is string, number, integer, boolean, null, constant, enum, choice, object, array
 * or any; `nullable` says that null is an answer too; `options` are the values of an enum or the branches of a choice.
 */
export function fieldOf(schema, root) {
    const found = resolve(schema, root);
    if ("const" in found) return { kind: "constant", schema: found, nullable: false };
    if (Array.isArray(found.enum))
        return enumOf(
            found,
            found.enum.map((value, place) => ({ value, label: found.enumNames?.[place] ?? labelOf(value) })),
        );
    const branches = found.oneOf ?? found.anyOf;
    if (
        Array.isArray(branches) &&
        branches.some((branch) => BRANCH_WORDS.some((word) => word in resolve(branch, root)))
    )
        return branched(found, branches, root);
    return typed(found);
}

function enumOf(schema, options) {
    const given = options.filter((option) => option.value !== null);
    return {
        kind: "enum",
        schema,
        options: given,
        nullable: given.length < options.length || schema.nullable === true,
    };
}

function branched(schema, branches, root) {
    const { oneOf, anyOf, title, description, default: initial, ...shared } = schema;
    const all = branches.map((branch) => resolve({ allOf: [shared, branch] }, root));
    const options = all.filter((branch) => branch.type !== "null" && branch.const !== null);
    const nullable = options.length < all.length || schema.nullable === true;
    const about = withoutMissing({ title, description, default: initial });
    if (options.length === 1) {
        const only = fieldOf({ ...options[0], ...about }, root);
        return { ...only, nullable: nullable || only.nullable };
    }
    if (options.length && options.every((option) => "const" in option))
        return {
            ...enumOf(
                { ...shared, ...about },
                options.map((option) => ({ value: option.const, label: option.title ?? labelOf(option.const) })),
            ),
            nullable,
        };
    return {
        kind: "choice",
        schema: { ...shared, ...about },
        nullable,
        options: options.map((option, place) => ({ label: branchLabel(option, place, root), schema: option })),
    };
}

function branchLabel(schema, place, root) {
    if (schema.title) return schema.title;
    const fixed = Object.values(schema.properties ?? {})
        .map((one) => resolve(one, root))
        .find((one) => "const" in one);
    if (fixed) return labelOf(fixed.const);
    const names = Object.keys(schema.properties ?? {});
    if (names.length) return names.slice(0, 3).join(", ");
    return [schema.type].flat().filter(Boolean).join(" or ") || `option ${place + 1}`;
}

function typed(schema) {
    const types = [schema.type ?? inferredType(schema)].flat().filter(Boolean);
    const given = types.filter((type) => type !== "null");
    const nullable = given.length < types.length || schema.nullable === true;
    if (given.length > 1)
        return {
            kind: "choice",
            schema,
            nullable,
            options: given.map((type) => ({ label: type, schema: { ...schema, type, default: undefined } })),
        };
    if (!given.length) return { kind: types.length ? "null" : "any", schema, nullable };
    return { kind: given[0], schema, nullable };
}

function inferredType(schema) {
    if (schema.properties || isObject(schema.additionalProperties)) return "object";
    if (schema.items || schema.prefixItems) return "array";
    if (schema.pattern || schema.format || schema.minLength !== undefined || schema.maxLength !== undefined)
        return "string";
    if (schema.minimum !== undefined || schema.maximum !== undefined || schema.multipleOf !== undefined)
        return "number";
    return null;
}

/** Return what a form starts with: defaults and constants, and what is required and empty; undefined is "not given". */
export function initialValue(schema, root, isRequired = true, depth = 0) {
    const field = fieldOf(schema, root);
    if (field.schema.default !== undefined && field.schema.default !== null) return field.schema.default;
    if (!isRequired || depth > 8) return undefined;
    if (field.kind === "constant") return field.schema.const;
    if (field.kind === "boolean") return false;
    if (field.kind === "array") return [];
    if (field.kind === "null") return null;
    if (field.kind === "object") return initialObject(field.schema, root, depth);
    if (field.kind === "choice") return initialValue(field.options[0].schema, root, true, depth + 1);
    return undefined;
}

function initialObject(schema, root, depth) {
    const made = {};
    for (const [name, property] of Object.entries(schema.properties ?? {})) {
        const value = initialValue(property, root, (schema.required ?? []).includes(name), depth + 1);
        if (value !== undefined) made[name] = value;
    }
    return made;
}

/** Return which branch of a choice a value belongs to. */
export function branchOf(value, options, root) {
    const scores = options.map((option) => fitness(value, option.schema, root));
    const best = Math.max(...scores);
    return best < 0 ? 0 : scores.indexOf(best);
}

function fitness(value, schema, root, depth = 0) {
    const field = fieldOf(schema, root);
    if (value === null) return field.nullable || field.kind === "null" ? 1 : -1;
    if (field.kind === "constant") return equal(value, field.schema.const) ? 5 : -1;
    if (field.kind === "enum") return field.options.some((option) => equal(option.value, value)) ? 3 : -1;
    if (field.kind === "choice")
        return Math.max(
            ...field.options.map((option) => (depth > 4 ? 0 : fitness(value, option.schema, root, depth + 1))),
        );
    if (field.kind === "any") return 0;
    if (field.kind !== typeOf(value) && !(field.kind === "number" && typeOf(value) === "integer")) return -1;
    if (field.kind !== "object" || depth > 4) return field.kind === typeOf(value) ? 2 : 1;
    let score = 1;
    for (const [name, property] of Object.entries(field.schema.properties ?? {})) {
        if (!(name in value)) {
            if ((field.schema.required ?? []).includes(name)) score -= 1;
            continue;
        }
        const fits = fitness(value[name], property, root, depth + 1);
        if (fits < 0) return -1;
        score += 1 + fits;
    }
    return Math.max(0, score);
}

/** Return the type of a JSON value, as schemas name it. */
export function typeOf(value) {
    if (value === null) return "null";
    if (Array.isArray(value)) return "array";
    if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
    return typeof value;
}

/** Return whether two JSON values are equal. */
export function equal(one, other) {
    if (one === other) return true;
    if (typeOf(one) !== typeOf(other) || typeof one !== "object" || one === null) return false;
    const keys = Object.keys(one);
    return (
        keys.length === Object.keys(other).length && keys.every((key) => key in other && equal(one[key], other[key]))
    );
}

export function isObject(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}

function labelOf(value) {
    return typeof value === "string" ? value : JSON.stringify(value);
}

function withoutMissing(object) {
    return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}
