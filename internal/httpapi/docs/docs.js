// Shows the description of the API. A file of its own, so that the page's policy needs no inline script.
window.ui = SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  docExpansion: "list",
  presets: [SwaggerUIBundle.presets.apis],
  validatorUrl: null,
});
