// Package admin is the operators' side: a listener of its own on which plugins
// are listed, reloaded, stopped and tried, and metrics are read.
//
//	GET  /admin/plugins                    what runs, how it does, what it may do
//	POST /admin/plugins/reload             read the configuration again
//	POST /admin/plugins/{name}/disable     leave a plugin out at once
//	POST /admin/plugins/{name}/enable      and have it back
//	POST /admin/plugins/{name}/selftest    call its hooks with made-up requests
//	GET  /metrics                          what Prometheus scrapes
//
// Whoever asks shows a token, on this machine too: any user and any page in a
// browser can reach a port on loopback. A request from a browser is refused by
// its Origin, one that was led here by a name of somebody else's by its Host.
// /metrics is open, as Prometheus expects it, unless Options.GuardMetrics.
package admin
