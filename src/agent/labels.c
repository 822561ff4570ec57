/* SPDX-License-Identifier: Apache-2.0 */
/* Later sources replace earlier ones: program, OpenTelemetry's variables, Kubernetes, settings. No state. */
#include "agent/labels.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "collect/kernel/container.h"
#include "collect/kernel/procfs.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/text/printable.h"

enum { FILE_MAX_BYTES = 4096, POD_UID_LENGTH = 36 };

void label_text(char *to, size_t room, const char *text)
{
	AUTO(buffer_release) struct buffer safe = BUFFER_INIT;

	buffer_printable(&safe, text, false);
	size_t length = MIN(safe.size, room - 1);

	while (length && length < safe.size && (safe.data[length] & 0xc0) == 0x80)
		length--;
	memcpy(to, length ? (const char *)safe.data : "", length);
	to[length] = '\0';
}

/* "service.version" -> "service_version" */
static void copy_key(char *to, size_t room, const char *key)
{
	size_t i = 0;

	for (; key[i] && i + 1 < room; i++)
		to[i] = isalnum((unsigned char)key[i]) ? key[i] : '_';
	to[i] = '\0';
	if (!isalpha((unsigned char)to[0]))
		to[0] = 'x';
}

void labels_set(struct labels *labels, const char *key, const char *value)
{
	struct label label;
	size_t at = 0;

	copy_key(label.key, sizeof label.key, key);
	label_text(label.value, sizeof label.value, value);
	while (at < labels->count && strcmp(labels->at[at].key, label.key) < 0)
		at++;
	bool there = at < labels->count && strcmp(labels->at[at].key, label.key) == 0;

	if (there && !label.value[0]) {
		labels->count--;
		memmove(&labels->at[at], &labels->at[at + 1],
			(labels->count - at) * sizeof labels->at[0]);
	} else if (there) {
		labels->at[at] = label;
	} else if (label.value[0] && labels->count < READING_LABELS_MAX) {
		memmove(&labels->at[at + 1], &labels->at[at],
			(labels->count - at) * sizeof labels->at[0]);
		labels->at[at] = label;
		labels->count++;
	}
}

const char *labels_get(const struct labels *labels, const char *key)
{
	for (size_t i = 0; i < labels->count; i++)
		if (strcmp(labels->at[i].key, key) == 0)
			return labels->at[i].value;
	return NULL;
}

/* A variable of /proc/PID/environ, whose entries end with zeros; NULL: not set. */
static const char *variable(const char *environment, size_t size, const char *name)
{
	size_t length = strlen(name);

	for (size_t at = 0; at < size; at += strlen(environment + at) + 1)
		if (strncmp(environment + at, name, length) == 0 && environment[at + length] == '=')
			return environment + at + length + 1;
	return NULL;
}

/* OTEL_RESOURCE_ATTRIBUTES: "service.name=shop,service.version=1.2". Only those that say which service it is: others may have
 * a new value for every process, which would make as many series. */
static void take_attributes(struct labels *labels, const char *text)
{
	static const struct {
		const char *attribute, *label;
	} wanted[] = {
		{ "service.name", "service_name" },
		{ "service.namespace", "service_namespace" },
		{ "service.version", "service_version" },
		{ "deployment.environment.name", "deployment_environment" },
		{ "deployment.environment", "deployment_environment" },
	};

	while (text && *text) {
		size_t length = strcspn(text, ","), key = strcspn(text, "=,");

		for (size_t i = 0; i < ARRAY_SIZE(wanted) && key < length; i++) {
			if (strlen(wanted[i].attribute) != key ||
			    strncmp(text, wanted[i].attribute, key) != 0)
				continue;
			AUTO_FREE char *value = strndup(text + key + 1, length - key - 1);

			labels_set(labels, wanted[i].label, value ? value : "");
		}
		text += length + (text[length] == ',');
	}
}

bool labels_pod_uid(const char *groups, char *to, size_t room)
{
	/* "kubepods-burstable-pod1234_..." by systemd, "kubepods/burstable/pod1234-..." by cgroupfs */
	for (const char *at = groups; (at = strstr(at, "pod")); at += 3) {
		size_t digits = strspn(at + 3, "0123456789abcdef-_");

		if (digits < POD_UID_LENGTH || room <= POD_UID_LENGTH ||
		    !strstr(groups, "kubepods"))
			continue;
		for (size_t i = 0; i < POD_UID_LENGTH; i++)
			to[i] = at[3 + i] == '_' ? '-' : at[3 + i];
		to[POD_UID_LENGTH] = '\0';
		return true;
	}
	return false;
}

static void take_kubernetes(struct labels *labels, pid_t pid, const char *machine,
			    const char *environment, size_t size)
{
	/* The names that the documentation of the downward API uses. */
	static const struct {
		const char *variable, *label;
	} wanted[] = {
		{ "POD_NAME", "pod" },
		{ "MY_POD_NAME", "pod" },
		{ "POD_NAMESPACE", "namespace" },
		{ "MY_POD_NAMESPACE", "namespace" },
		{ "NODE_NAME", "node" },
		{ "MY_NODE_NAME", "node" },
		{ "CONTAINER_NAME", "container" },
	};
	AUTO_FREE char *groups = procfs_file(pid, "cgroup", NULL);
	AUTO_FREE char *container = container_name_of(pid, machine);
	char uid[POD_UID_LENGTH + 1];

	if (container)
		labels_set(labels, "container", container);
	if (groups && labels_pod_uid(groups, uid, sizeof uid))
		labels_set(labels, "pod_uid", uid);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		const char *value = variable(environment, size, wanted[i].variable);

		if (value)
			labels_set(labels, wanted[i].label, value);
	}
}

static void take_setting(struct labels *labels, const struct agent_label *label,
			 const char *environment, size_t size)
{
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;
	const char *value = label->value;

	if (strncmp(value, "env:", 4) == 0) {
		value = variable(environment, size, value + 4);
	} else if (strncmp(value, "file:", 5) == 0) {
		value = file_read(value + 5, FILE_MAX_BYTES, &text, NULL) == 0
				? buffer_string(&text)
				: NULL;
		if (text.data)
			text.data[strcspn((const char *)text.data, "\r\n")] = '\0';
	}
	if (value)
		labels_set(labels, label->key, value);
}

void labels_of(struct labels *ret, pid_t pid, const char *program, const char *machine,
	       const struct agent_settings *settings)
{
	size_t size = 0;
	AUTO_FREE char *environment = procfs_file(pid, "environ", &size);
	const char *text = environment ? environment : "";
	const char *name = variable(text, size, "OTEL_SERVICE_NAME");
	char number[24], host[65] = "";

	*ret = (struct labels){ 0 };
	gethostname(host, sizeof host - 1);
	take_attributes(ret, variable(text, size, "OTEL_RESOURCE_ATTRIBUTES"));
	if (name && *name)
		labels_set(ret, "service_name", name);
	take_kubernetes(ret, pid, machine, text, size);
	for (size_t i = 0; i < settings->labels.count; i++)
		take_setting(ret, &settings->labels.at[i], text, size);
	/* Each of these may have set it to nothing, which removes it. */
	if (!labels_get(ret, "service_name"))
		labels_set(ret, "service_name", program && *program ? program : "unknown");
	snprintf(number, sizeof number, "%d", (int)pid);
	labels_set(ret, "pid", number);
	labels_set(ret, "host", host);
}
