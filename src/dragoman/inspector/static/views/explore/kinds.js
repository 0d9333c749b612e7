// What can be explored: for each kind, the name of an item, its form, and the request that it becomes.

import { ask } from "../../page/backend.js";
import { expand, variables } from "../../schema/uri_template.js";

const NO_ARGUMENTS = { type: "object", properties: {} };

function texts(given) {
    const list = Array.isArray(given) ? given.filter((one) => typeof one?.name === "string") : [];
    const properties = Object.fromEntries(
        list.map((one) => [one.name, { type: "string", title: one.title, description: one.description }]),
    );
    return {
        type: "object",
        properties,
        required: list.filter((one) => one.isRequired ?? one.required).map((one) => one.name),
    };
}

export const KINDS = {
    tools: {
        label: "Tools",
        verb: "Call",
        nameOf: (item) => item.name,
        schemaOf: (item) => item.inputSchema ?? NO_ARGUMENTS,
        requestOf: (item, value) => ({ method: "tools/call", params: { name: item.name, arguments: value } }),
    },
    prompts: {
        label: "Prompts",
        verb: "Get",
        nameOf: (item) => item.name,
        schemaOf: (item) => texts(item.arguments ?? []),
        requestOf: (item, value) => ({ method: "prompts/get", params: { name: item.name, arguments: value } }),
        referenceOf: (item) => ({ type: "ref/prompt", name: item.name }),
    },
    resources: {
        label: "Resources",
        verb: "Read",
        nameOf: (item) => item.uri,
        labelOf: (item) => item.title ?? item.name ?? item.uri,
        schemaOf: () => null,
        requestOf: (item) => ({ method: "resources/read", params: { uri: item.uri } }),
    },
    templates: {
        label: "Templates",
        verb: "Read",
        nameOf: (item) => item.uriTemplate,
        labelOf: (item) => item.title ?? item.name ?? item.uriTemplate,
        schemaOf: (item) => texts(variables(String(item.uriTemplate))),
        requestOf: (item, value) => ({
            method: "resources/read",
            params: { uri: expand(String(item.uriTemplate), value) },
        }),
        referenceOf: (item) => ({ type: "ref/resource", uri: item.uriTemplate }),
    },
    skills: {
        label: "Skills",
        verb: "Read",
        nameOf: (item) => item.uri ?? item.name,
        labelOf: (item) => item.name,
        schemaOf: () => null,
        requestOf: (item) => ({ method: "resources/read", params: { uri: item.uri } }),
    },
    tasks: {
        label: "Tasks",
        verb: "Get",
        nameOf: (item) => item.taskId,
        labelOf: (item) => `${item.status ?? ""} ${item.taskId}`,
        schemaOf: () => null,
        requestOf: (item) => ({ method: "tasks/get", params: { taskId: item.taskId } }),
        others: [
            ["Result", "tasks/result"],
            ["Cancel the task", "tasks/cancel"],
        ],
    },
    apps: {
        label: "Apps",
        verb: "Read",
        nameOf: (item) => item.uri,
        labelOf: (item) => item.resource?.title ?? item.resource?.name ?? item.uri,
        schemaOf: () => null,
        requestOf: (item) => ({ method: "resources/read", params: { uri: item.uri } }),
    },
};

/** Return what suggests texts for an argument while it is typed, or null where the server suggests nothing. */
export function completion(server, kind, item, valueNow) {
    const reference = KINDS[kind].referenceOf?.(item);
    if (!reference || !server.capabilities?.completions) return null;
    return async (argument, value) => {
        try {
            return (
                await ask("explore/complete", {
                    server: server.id,
                    ref: reference,
                    argument,
                    value,
                    context: { ...valueNow(), [argument]: undefined },
                })
            ).values;
        } catch {
            return [];
        }
    };
}
