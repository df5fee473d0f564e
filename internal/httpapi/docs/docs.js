// Shows the description of the API. It stands in a file of its own so that the page's policy allows no inline script.
window.ui = SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  docExpansion: "list",
  presets: [SwaggerUIBundle.presets.apis],
  validatorUrl: null,
});
