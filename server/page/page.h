/*
 * The web page that shows a server: its files, which are part of the program, the hosts under whose
 * names browsers may read it, and the headers that keep browsers from running anything else.
 *
 * Names, errors and values of models reach the page only as JSON, and its script puts them into
 * text nodes only (page.js).
 *
 * Threads: all functions are pure.
 */
#ifndef SRV_PAGE_H
#define SRV_PAGE_H

#include <stdbool.h>

#include "runtime/base/span.h"

enum { SRV_PAGE_FILES = 4 };
struct srv_page_file {
    const char *path, *content_type;
    struct rt_span bytes;
};
/* Returns file i of the page, 0 <= i < SRV_PAGE_FILES. */
struct srv_page_file srv_page_file(int i);
/* Returns the index of the file with this path, or -1. */
int srv_page_find(struct rt_span path);

/* the path of the page's events, and the beginnings of the paths of a model's errors, plans and
 * profiles */
extern const char srv_page_events_path[], srv_page_errors_path[], srv_page_plan_path[],
    srv_page_profile_path[];

struct srv_page_header {
    const char *name, *value;
};
/* The headers of every response that belongs to the page. The last name is NULL. */
extern const struct srv_page_header srv_page_headers[];

/*
 * Returns whether the page may be read under this value of the header Host: an IP address,
 * localhost, a name below localhost, or one of the comma-separated `names`. A foreign page could
 * otherwise point a name of its own at the server's address and read the answers as its own (DNS
 * rebinding). An empty Host is allowed, because no browser sends one.
 */
bool srv_page_host_is_allowed(struct rt_span host, const char *names);
/* Returns the first of the comma-separated `names` that no Host can be, or an empty span. */
struct rt_span srv_page_bad_host(const char *names);
/*
 * Returns whether the page may be read with these values of the headers Sec-Fetch-Site and
 * Sec-Fetch-Mode, which are empty if the request does not have them. A foreign page may link to a
 * file of the page (`is_file`), but its images, scripts and frames, which have no Origin, may not
 * occupy the places of viewers. Browsers send these headers only by HTTPS and to this machine.
 */
bool srv_page_fetch_is_allowed(struct rt_span site, struct rt_span mode, bool is_file);
/*
 * Returns whether a request with this Origin, which all requests of web pages but GET and HEAD
 * have, is from a page of the server itself: under the name in the header Host.
 */
bool srv_page_origin_is_own(struct rt_span origin, struct rt_span host);

#endif
