//! `coopcheck lsp`: findings in an editor, as one types.
//!
//! The server speaks the Language Server Protocol over standard input and output. It keeps the text of each open document, checks
//! it when nothing else is to be done, and publishes what it finds: what `coopcheck FILE` reports, by the nearest
//! coopcheck.toml. Documents are shaders in GLSL, HLSL and Slang, which are compiled, and SPIR-V assembly. What an editor
//! sends never ends the server: what can't be understood is answered by an error.

mod checked;
mod compiler_messages;
mod facts;
mod lines;

use super::Cli;
use crate::Status;
use checked::Checked;
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, Response};
use lsp_types::notification::{
    DidChangeTextDocument, DidCloseTextDocument, DidOpenTextDocument, DidSaveTextDocument, Notification as _,
    PublishDiagnostics,
};
use lsp_types::request::{GotoDefinition, HoverRequest, Request as _};
use lsp_types::{
    DidChangeTextDocumentParams, DidCloseTextDocumentParams, DidOpenTextDocumentParams, GotoDefinitionParams,
    GotoDefinitionResponse, HoverParams, HoverProviderCapability, OneOf, PublishDiagnosticsParams, ServerCapabilities,
    TextDocumentPositionParams, TextDocumentSyncKind, Uri,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A document that an editor has open.
struct Document {
    uri: Uri,
    path: PathBuf,
    text: String,
    version: Option<i32>,
    /// The result of the last check, of an older text if `is_stale`.
    checked: Option<Checked>,
    is_stale: bool,
}

/// The open documents, by their address.
struct Server<'a> {
    cli: &'a Cli,
    documents: BTreeMap<String, Document>,
}

/// Serves an editor until it says that it is done.
pub(super) fn serve(cli: &Cli) -> Status {
    let (connection, threads) = Connection::stdio();
    let served = run(cli, &connection);
    drop(connection);
    match served.and_then(|()| threads.join().map_err(|error| error.to_string())) {
        Ok(()) => Status::Success,
        Err(why) => {
            crate::io::error(&format!("error: coopcheck lsp: {why}"));
            Status::BadInput
        }
    }
}

fn run(cli: &Cli, connection: &Connection) -> Result<(), String> {
    let no_editor =
        |_| "standard input has no request of an editor, which is what starts the server (docs/editors.md)".to_owned();
    let (id, _) = connection.initialize_start().map_err(no_editor)?;
    let capabilities = ServerCapabilities {
        text_document_sync: Some(TextDocumentSyncKind::FULL.into()),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        definition_provider: Some(OneOf::Left(true)),
        ..ServerCapabilities::default()
    };
    let server = json!({ "name": "coopcheck", "version": env!("CARGO_PKG_VERSION") });
    let answer = json!({ "capabilities": capabilities, "serverInfo": server });
    connection.initialize_finish(id, answer).map_err(|error| error.to_string())?;
    let mut server = Server { cli, documents: BTreeMap::new() };
    loop {
        let message = match server.documents.values().any(|document| document.is_stale) {
            // What was typed meanwhile comes first: an older text need not be checked.
            true => match connection.receiver.try_recv() {
                Ok(message) => Some(message),
                Err(_) => {
                    server.check_one(connection);
                    continue;
                }
            },
            false => connection.receiver.recv().ok(),
        };
        match message {
            None => return Ok(()),
            Some(Message::Request(request)) => {
                if connection.handle_shutdown(&request).map_err(|error| error.to_string())? {
                    return Ok(());
                }
                let response = server.answer(request);
                send(connection, response.into());
            }
            Some(Message::Notification(notification)) => server.note(connection, notification),
            Some(Message::Response(_)) => {}
        }
    }
}

/// Sends a message. An editor that is gone is noticed where the next message is read.
fn send(connection: &Connection, message: Message) {
    let _ = connection.sender.send(message);
}

/// Returns the parameters of a message, if they are what the protocol says.
fn parameters<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value).ok()
}

impl Server<'_> {
    fn note(&mut self, connection: &Connection, notification: Notification) {
        let Notification { method, params } = notification;
        match method.as_str() {
            DidOpenTextDocument::METHOD => {
                let Some(DidOpenTextDocumentParams { text_document: new }) = parameters(params) else { return };
                let Some(path) = lines::path_of(&new.uri) else { return };
                let key = new.uri.as_str().to_owned();
                let (version, text) = (Some(new.version), new.text);
                self.documents
                    .insert(key, Document { uri: new.uri, path, text, version, checked: None, is_stale: true });
            }
            DidChangeTextDocument::METHOD => {
                let Some(changed) = parameters::<DidChangeTextDocumentParams>(params) else { return };
                let Some(document) = self.documents.get_mut(changed.text_document.uri.as_str()) else { return };
                // The whole text, as the server has asked for.
                let Some(last) = changed.content_changes.into_iter().next_back() else { return };
                document.text = last.text;
                document.version = Some(changed.text_document.version);
                document.is_stale = true;
            }
            // Others may include it, and coopcheck.toml is a file too.
            DidSaveTextDocument::METHOD => self.documents.values_mut().for_each(|document| document.is_stale = true),
            DidCloseTextDocument::METHOD => {
                let Some(DidCloseTextDocumentParams { text_document }) = parameters(params) else { return };
                self.documents.remove(text_document.uri.as_str());
                publish(connection, text_document.uri, None, Vec::new());
            }
            _ => {}
        }
    }

    /// Checks a document that has changed.
    fn check_one(&mut self, connection: &Connection) {
        let Some(document) = self.documents.values_mut().find(|document| document.is_stale) else { return };
        document.is_stale = false;
        let checked = checked::check(self.cli, &document.path, &document.uri, &document.text);
        publish(connection, document.uri.clone(), document.version, checked.diagnostics.clone());
        document.checked = Some(checked);
    }

    fn answer(&mut self, request: Request) -> Response {
        let Request { id, method, params } = request;
        let result = match method.as_str() {
            HoverRequest::METHOD => parameters::<HoverParams>(params)
                .map(|p| json!(self.at(&p.text_document_position_params, |checked, text, at| checked.hover(text, at)))),
            GotoDefinition::METHOD => parameters::<GotoDefinitionParams>(params).map(|p| {
                let found = self.at(&p.text_document_position_params, |checked, text, at| checked.definition(text, at));
                json!(found.map(GotoDefinitionResponse::Array))
            }),
            _ => {
                let why = format!("coopcheck lsp does not know {method}");
                return Response::new_err(id, ErrorCode::MethodNotFound as i32, why);
            }
        };
        match result {
            Some(result) => Response::new_ok(id, result),
            None => {
                let why = format!("the parameters of {method} are not what the protocol says");
                Response::new_err(id, ErrorCode::InvalidParams as i32, why)
            }
        }
    }

    /// Asks about a position in a document, as it is now.
    fn at<T>(
        &mut self,
        place: &TextDocumentPositionParams,
        ask: impl FnOnce(&Checked, &str, lsp_types::Position) -> Option<T>,
    ) -> Option<T> {
        let document = self.documents.get_mut(place.text_document.uri.as_str())?;
        if document.is_stale {
            // Its diagnostics are published when it is its turn.
            let checked = checked::check(self.cli, &document.path, &document.uri, &document.text);
            document.checked = Some(checked);
        }
        ask(document.checked.as_ref()?, &document.text, place.position)
    }
}

fn publish(connection: &Connection, uri: Uri, version: Option<i32>, diagnostics: Vec<lsp_types::Diagnostic>) {
    let params = PublishDiagnosticsParams { uri, diagnostics, version };
    let notification = Notification::new(PublishDiagnostics::METHOD.to_owned(), params);
    send(connection, notification.into());
}
